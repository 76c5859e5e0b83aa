"""One file for each engine's SQL: what the generator in `data.engines.sql` asks a dialect for."""
