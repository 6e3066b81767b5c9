"""Sizes for people."""

from __future__ import annotations

import pytest

from tqstudio import units


@pytest.mark.parametrize(
    ("count", "text", "short"),
    [
        (None, "", ""),
        (0, "0 B", "0B"),
        (999, "999 B", "999B"),
        (1000, "1.0 kB", "1.0K"),
        (1500, "1.5 kB", "1.5K"),
        (9_960, "10 kB", "10K"),
        (812_000_000, "812 MB", "812M"),
        (999_600_000, "1.0 GB", "1.0G"),
        (2_500_000_000_000, "2.5 TB", "2.5T"),
        (12_000_000_000_000_000_000, "12000 PB", "12000P"),
    ],
)
def test_sizes_are_decimal(count: float | None, text: str, short: str) -> None:
    assert units.size(count) == text
    assert units.short_size(count) == short
