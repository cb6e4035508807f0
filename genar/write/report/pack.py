"""Numbers as text that a page holds, and the browser unpacks by itself (``DecompressionStream``)."""

import base64
import gzip
import io
import json

import numpy as np
from numpy.typing import NDArray
from PIL import Image

LEVEL = 6  # of gzip: more takes three times as long for one part in a hundred


def pack(content: bytes) -> str:
    """Compress bytes and write them in base64."""
    return base64.b64encode(gzip.compress(content, LEVEL, mtime=0)).decode()


def pack_picture(image: Image.Image, **settings: int | bool) -> str:
    """Write a picture as a data URL, a JPEG of these settings of Pillow's."""
    file = io.BytesIO()
    image.save(file, "JPEG", **settings)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()


def pack_numbers(values: NDArray[np.generic]) -> str:
    """Pack numbers as float32, little-endian."""
    return pack(np.ascontiguousarray(values, dtype="<f4").tobytes())


def pack_texts(values: list[str]) -> str:
    """Pack strings, as a JSON array in UTF-8."""
    return pack(json.dumps(values, ensure_ascii=False).encode("utf-8", errors="replace"))


def pack_gene(counts: NDArray[np.integer], layers: list[NDArray[np.float32]]) -> str:
    """Pack what is known of one gene: its counts exactly, its layers to 1 part in 512.

    Bytes of one significance lie together, the least significant first, which compresses best: of the counts 1, 2 or 4
    of them, as few as hold the largest, then two of each layer.

    Parameters
    ----------
    counts
        Whole numbers from 0, [N].
    layers
        Values from 0, float32 [N] each; one below is taken as 0.
    """
    width = next(w for w in (1, 2, 4) if counts.max(initial=0) < 256**w)
    planes = [_planes(counts.astype(f"<u{width}"), width), *(_planes(halved(layer), 2) for layer in layers)]
    return pack(b"".join(planes))


def halved(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Round float32 to 8 bits of mantissa, ties to even, and leave the sign out; NaN stays NaN."""
    bits = np.maximum(values.astype("<f4"), 0).view("<u4").astype(np.uint64)
    rounded = (bits + 0x3FFF + ((bits >> 15) & 1)) >> 15
    return np.where(np.isnan(values), 0xFF80, rounded).astype("<u2")


def _planes(values: NDArray[np.unsignedinteger], width: int) -> bytes:
    return np.ascontiguousarray(values.view(np.uint8).reshape(-1, width).T).tobytes()
