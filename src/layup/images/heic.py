"""HEIC photos, as phones take them: Pillow reads them with the package pillow-heif (`layup-cl[heic]`)."""

from __future__ import annotations

from PIL import Image

HEIF = "HEIF"
"""Pillow's name of the format."""

HEAD = 64
"""Bytes at the beginning of a file that tell what it is."""

BRANDS = frozenset(b"heic heix heim heis hevc hevx hevm hevs".split())
"""What HEIC files call themselves. AVIF files are built in the same way."""


def is_heic(head: bytes) -> bool:
    """Whether a file that begins with these bytes is a HEIC photo.

    >>> is_heic(b"\\0\\0\\0\\x18ftypmif1\\0\\0\\0\\0mif1heic"), is_heic(b"\\xff\\xd8\\xff\\xe0")
    (True, False)
    """
    if head[4:8] != b"ftyp":
        return False
    end = int.from_bytes(head[:4], "big")
    # The main brand, a version, and then all other brands that a reader may know instead.
    brands = {head[8:12], *(head[at : at + 4] for at in range(16, min(end, len(head)), 4))}
    return not BRANDS.isdisjoint(brands)


def can_read_heic() -> bool:
    """Whether Pillow can read HEIC photos; it is taught to if pillow-heif is installed.

    That package turns photos upright itself, and says so in the orientation that it reports.
    """
    if HEIF not in Image.OPEN:
        try:
            from pillow_heif import register_heif_opener
        except ImportError:
            return False
        register_heif_opener()
    return True
