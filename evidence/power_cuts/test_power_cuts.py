"""A few power cuts of each variant. `python -m evidence.power_cuts` makes hundreds."""

from __future__ import annotations

import pytest

from tests.servers import servers_found

from .__main__ import VARIANTS, Variant, play


@pytest.mark.rule("3.6")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_power_cuts_show_what_they_must(variant: Variant) -> None:
    try:
        told, good = play(variant, 500 if variant.red else 10, servers_found())
    except SystemExit as missing:
        pytest.skip(str(missing))
    assert good, told
