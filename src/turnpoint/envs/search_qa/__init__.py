"""Question answering with a search engine, in Search-R1's protocol (Jin et al. 2025)."""
