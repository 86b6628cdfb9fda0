"""The model repository and the one door: infer(request) -> response."""
