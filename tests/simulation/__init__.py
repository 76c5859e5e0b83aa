"""The whole server in one process, driven by one seed: clock, threads, disk, coins, clients and kills."""
