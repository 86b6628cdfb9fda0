"""A frame as JPEG, with boxes when there are any."""

import cv2

_MOST_BOXES = 300
_COLORS = ((64, 180, 60), (40, 120, 240), (220, 120, 40), (60, 60, 220), (180, 60, 180), (160, 160, 20))  # BGR
_LABEL_CHARACTERS = 40


def jpeg(picture, quality, boxes):
    """JPEG bytes as a uint8 array, or None when the picture cannot be encoded."""
    if boxes:
        picture = picture.copy()
        for found in boxes[:_MOST_BOXES]:
            if found.get("box"):
                _draw(picture, found)
    good, data = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, min(max(int(quality), 10), 100)])
    return data.reshape(-1) if good else None


def _draw(picture, found):
    height, width = picture.shape[:2]
    corners = zip(found["box"], (width, height, width, height))
    x1, y1, x2, y2 = [int(round(min(max(value, 0.0), most))) for value, most in corners]
    label = str(found.get("label", ""))
    color = _COLORS[sum(label.encode()) % len(_COLORS)] if picture.ndim == 3 else 255
    thick = max(1, min(width, height) // 240)
    cv2.rectangle(picture, (x1, y1), (x2, y2), color, thick)
    _write(picture, "%s %.2f" % (_drawable(label), found.get("score", 0.0)), x1, y1, color, thick)


def _drawable(label):
    """OpenCV's fonts have no letters beyond ASCII: such labels are left to the page."""
    return label[:_LABEL_CHARACTERS] if all(32 <= ord(letter) < 127 for letter in label) else ""


def _write(picture, text, x, y, color, thick):
    size = 0.4 * thick
    (width, height), below = cv2.getTextSize(text.strip(), cv2.FONT_HERSHEY_SIMPLEX, size, thick)
    top = max(y - height - below, 0)
    left = max(min(x, picture.shape[1] - width), 0)
    cv2.rectangle(picture, (left, top), (left + width, top + height + below), color, -1)
    white = (255, 255, 255) if picture.ndim == 3 else 0
    cv2.putText(picture, text.strip(), (left, top + height), cv2.FONT_HERSHEY_SIMPLEX, size, white, thick, cv2.LINE_AA)
