"""Code of the camera and image children (Python 3.6, numpy and cv2 only)."""
