"""The main process's side of camera children and the image child."""
