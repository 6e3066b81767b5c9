"""Draws pictures that show their number, for sources of ffmpeg."""

from __future__ import annotations

BITS = 16
"""Each picture shows its number as so many black and white bars, the lowest bit at the left."""


def draw(rate: str | int | float, seconds: float, size: str = "160x90") -> str:
    """Return a source for `-f lavfi`: numbered pictures in 8 bits of 4:2:0."""
    bars = f"geq=lum='if(bitand(floor(N/pow(2,floor(X*{BITS}/W))),1),235,16)':cb=128:cr=128"
    # Drawn as large as the bars need, because each pixel costs an expression.
    small = f"color=s={BITS}x2:r={rate}:d={seconds},format=yuv420p,{bars}"
    return f"{small},scale={size.replace('x', ':')}:flags=neighbor,setsar=1"
