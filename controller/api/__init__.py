"""HTTP: handlers parse, call one service, and shape the answer."""
