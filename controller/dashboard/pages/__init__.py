"""What each page shows, from the status that `/v1/status` is made of, the marks and the journals."""
