import os
import struct
import zlib

import cv2
import numpy
import pytest

from edge_agent.vision_host import decode, headers

PICTURE = numpy.random.RandomState(3).randint(0, 256, (37, 53, 3)).astype(numpy.uint8)


def encoded(extension, *parameters):
    return cv2.imencode(extension, PICTURE, list(parameters))[1].tobytes()


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data) & 0xFFFFFFFF)


def png_header(width, height):
    return headers.PNG_SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))


def with_orientation(jpeg, orientation):
    """The JPEG with an EXIF segment that says how it is to be turned."""
    tiff = b"MM\0*\0\0\0\x08" + struct.pack(">HHHIHHI", 1, 0x0112, 3, 1, orientation, 0, 0)
    exif = b"Exif\0\0" + tiff
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + jpeg[2:]


FORMATS = [
    ("JPEG", encoded(".jpg")),
    ("JPEG", encoded(".jpg", cv2.IMWRITE_JPEG_PROGRESSIVE, 1)),
    ("PNG", encoded(".png")),
    ("WebP", encoded(".webp", cv2.IMWRITE_WEBP_QUALITY, 80)),
    ("WebP", encoded(".webp", cv2.IMWRITE_WEBP_QUALITY, 101)),
]


@pytest.mark.parametrize(("kind", "data"), FORMATS)
def test_size_is_read_from_the_header(kind, data):
    header = headers.read(data)
    assert (header.kind, header.width, header.height) == (kind, 53, 37)
    headers.check_whole(data, header)
    assert decode.decode(data).shape == (37, 53, 3)


@pytest.mark.parametrize(("kind", "data"), FORMATS)
def test_a_picture_cut_off_anywhere_is_refused(kind, data):
    for length in list(range(1, 60)) + list(range(60, len(data), 97)) + [len(data) - 2, len(data) - 1]:
        with pytest.raises(headers.BadPicture) as caught:
            decode.decode(data[:length])
        assert caught.value.code in ("image.truncated", "image.not_a_picture")
    with pytest.raises(headers.BadPicture) as caught:
        decode.decode(data[: len(data) // 2])
    assert caught.value.code == "image.truncated"
    assert kind in caught.value.text


def test_the_end_of_a_thumbnail_is_not_the_end_of_the_picture():
    whole = encoded(".jpg")
    thumbnail = cv2.imencode(".jpg", PICTURE[:8, :8])[1].tobytes()
    data = whole[:2] + b"\xff\xe1" + struct.pack(">H", len(thumbnail) + 2) + thumbnail + whole[2:]
    assert decode.decode(data).shape == (37, 53, 3)
    with pytest.raises(headers.BadPicture) as caught:
        decode.decode(data[:-40])
    assert caught.value.code == "image.truncated"


def test_bytes_after_the_end_do_no_harm():
    for _, data in FORMATS:
        assert decode.decode(data + b"\0" * 100).shape == (37, 53, 3)


def test_a_header_that_promises_too_many_pixels_is_refused_before_anything_is_decoded():
    with pytest.raises(headers.BadPicture) as caught:
        decode.decode(png_header(20000, 20000))
    assert caught.value.code == "image.too_large"
    assert "20000 x 20000" in caught.value.text
    with pytest.raises(headers.BadPicture) as caught:
        decode.decode(encoded(".jpg"), max_pixels=1000)
    assert caught.value.code == "image.too_large"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "image.empty"),
        (b"Dear camera, this is a text called .jpg\n", "image.not_a_picture"),
        (b"GIF89a" + b"\0" * 100, "image.not_a_picture"),
        (b"\xff\xd8\xff", "image.truncated"),
        (b"\xff\xd8\xff\xd9", "image.truncated"),
        (b"\xff\xd8\xff\xe0\0\x10nothing good here", "image.not_a_picture"),
        (headers.PNG_SIGNATURE, "image.truncated"),
        (png_header(0, 10), "image.not_a_picture"),
        (png_header(10, 10), "image.truncated"),
        (png_header(10, 10) + chunk(b"IDAT", b"damaged") + chunk(b"IEND", b""), "image.not_a_picture"),
        (b"RIFF\x24\0\0\0WAVEfmt " + b"\0" * 40, "image.not_a_picture"),
        (b"RIFF\x24\0\0\0WEBPVP9 " + b"\0" * 40, "image.not_a_picture"),
        (b"RIFF", "image.truncated"),
    ],
)
def test_what_is_no_picture_is_refused_with_its_code(data, code):
    with pytest.raises(headers.BadPicture) as caught:
        decode.decode(data)
    assert caught.value.code == code
    assert caught.value.text


def test_random_bytes_behind_a_true_beginning_end_in_a_refusal():
    random = numpy.random.RandomState(5)
    for start in (b"\xff\xd8\xff", headers.PNG_SIGNATURE, b"RIFF\xff\0\0\0WEBPVP8 ", b"RIFF\xff\0\0\0WEBPVP8X"):
        for _ in range(200):
            data = start + random.bytes(random.randint(0, 200))
            with pytest.raises(headers.BadPicture):
                decode.decode(data)


def test_exif_orientation_turns_the_picture():
    assert decode.decode(with_orientation(encoded(".jpg"), 1)).shape == (37, 53, 3)
    assert decode.decode(with_orientation(encoded(".jpg"), 6)).shape == (53, 37, 3)


def test_grey_and_transparent_pictures_become_three_channels(data_dir):
    with open(os.path.join(data_dir, "camera.jpg"), "rb") as file:
        assert decode.decode(file.read()).shape == (512, 512, 3)
    transparent = cv2.imencode(".png", numpy.zeros((5, 6, 4), numpy.uint8))[1].tobytes()
    assert decode.decode(transparent).shape == (5, 6, 3)
    deep = cv2.imencode(".png", numpy.full((5, 6, 3), 65535, numpy.uint16))[1].tobytes()
    assert decode.decode(deep).dtype == numpy.uint8
