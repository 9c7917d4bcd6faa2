"""The rules of safety as TLA+ specifications, and the cases in which TLC checks them."""
