"""What the board says of itself: sysfs and /proc."""
