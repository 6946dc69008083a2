"""SQL, and nothing else: takes and gives domain values."""
