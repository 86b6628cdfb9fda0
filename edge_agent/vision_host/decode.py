"""Picture bytes to pixels, with everything that can be refused refused before the codec sees it."""

import cv2
import numpy

from edge_agent.vision_host import headers

MAX_PIXELS = 64 * 1000 * 1000


def decode(data, max_pixels=MAX_PIXELS):
    """BGR uint8 of JPEG, PNG or WebP bytes, turned as its EXIF orientation says, alpha dropped, 16 bits cut to 8.

    headers.BadPicture: image.empty, image.not_a_picture, image.truncated, image.too_large.
    """
    header = headers.read(data)
    if header.width * header.height > max_pixels:
        raise headers.BadPicture(
            "image.too_large",
            "the %s has %d x %d pixels, over the limit of %.1f megapixels"
            % (header.kind, header.width, header.height, max_pixels / 1e6),
        )
    headers.check_whole(data, header)
    try:
        picture = cv2.imdecode(numpy.frombuffer(data, dtype=numpy.uint8), cv2.IMREAD_COLOR)
    except cv2.error as error:
        raise headers.BadPicture("image.not_a_picture", "the %s cannot be decoded: %s" % (header.kind, error)) from None
    if picture is None:
        raise headers.BadPicture("image.not_a_picture", "the %s cannot be decoded: its pixels are damaged" % header.kind)
    return picture
