"""Compat: locks of this package under the interfaces of other packages."""
