"""Where rows live: tables as questions see them, and the private sample."""
