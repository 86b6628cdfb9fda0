"""How a picture becomes a model's input, and how boxes find their way back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, Tuple

from edge_agent.domain.results import Box


@dataclass(frozen=True)
class Preprocess:
    """The `[image]` table of a model, resolved: value = (pixel * scale - mean) / std."""

    width: int
    height: int
    layout: str = "NCHW"  #: NCHW | NHWC
    resize: str = "letterbox"  #: letterbox | stretch | center_crop
    color: str = "RGB"  #: RGB | BGR | GRAY
    datatype: str = "FP32"  #: FP32 | FP16 | UINT8
    scale: float = 1.0
    mean: Tuple[float, ...] = (0.0, 0.0, 0.0)
    std: Tuple[float, ...] = (1.0, 1.0, 1.0)

    @property
    def channels(self) -> int:
        """1 for GRAY, else 3."""
        return 1 if self.color == "GRAY" else 3

    @property
    def shape(self) -> Tuple[int, ...]:
        """Shape of one prepared picture with its batch dimension of 1."""
        if self.layout == "NCHW":
            return (1, self.channels, self.height, self.width)
        return (1, self.height, self.width, self.channels)

    @property
    def nbytes(self) -> int:
        """Bytes of one prepared picture."""
        size = {"FP32": 4, "FP16": 2, "UINT8": 1}[self.datatype]
        return self.channels * self.height * self.width * size

    def as_json(self) -> Dict[str, Any]:
        """For the control message to a vision child."""
        return asdict(self)


@dataclass(frozen=True)
class Geometry:
    """input = source * scale + pad, per axis; what the vision child did to the picture."""

    width: int  #: of the source picture, pixels
    height: int
    scale_x: float
    scale_y: float
    pad_x: float
    pad_y: float

    def to_source(self, box: Box) -> Box:
        """A box in pixels of the model's input, in pixels of the source picture, cut at its edges."""
        x1, y1, x2, y2 = box
        return (
            min(max((x1 - self.pad_x) / self.scale_x, 0.0), float(self.width)),
            min(max((y1 - self.pad_y) / self.scale_y, 0.0), float(self.height)),
            min(max((x2 - self.pad_x) / self.scale_x, 0.0), float(self.width)),
            min(max((y2 - self.pad_y) / self.scale_y, 0.0), float(self.height)),
        )


@dataclass(frozen=True)
class FilledFrame:
    """A vision child's answer: the picture lies prepared in the slot."""

    sequence: int  #: number of the frame in its child; drop() and encode() name it
    captured_ns: int  #: CLOCK_MONOTONIC when the frame arrived
    geometry: Geometry
    decode_us: int  #: bytes to pixels (0 where the source's reader did it)
    fill_us: int  #: resize, colour, normalise, write
