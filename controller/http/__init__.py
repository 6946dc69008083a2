"""HTTP: handlers parse a request, call one service, and shape the answer."""
