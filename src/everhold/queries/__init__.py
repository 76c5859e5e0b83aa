"""Questions and answers, as frozen values."""
