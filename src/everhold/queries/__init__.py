"""What is asked and what is told: frozen values."""
