"""hush's own times for `peers.py`: a worker like its peers', so that memory is measured alike.

Every question is asked afresh: what an earlier one left in memory is thrown away first.
"""

from __future__ import annotations

import json
import sys
import time

import pyarrow as pa

from hush.curator.opening import protect


def main() -> None:
    asked = json.loads(sys.argv[1])
    budget = {"epsilon": 10**6}
    if asked["table"]:
        curator = protect(
            asked["table"], unit="user_id", values={"city": asked["cities"]}, budget=budget, max_groups=3, max_rows=5
        )
    else:
        table = pa.table({"id": list(range(1000)), "x": [1] * 1000})
        curator = protect(table, unit="id", bounds={"x": (0, 2)}, budget=budget)
    times = []
    for at in range(asked["repeats"]):
        curator.data_sets["data"].engine.connection.forget()  # measure the work, not what is kept of it
        start = time.perf_counter()
        if asked["table"]:
            answer = curator.ask("SELECT city, COUNT(*) AS n FROM data GROUP BY city", epsilon=1, fresh=True)
            assert len(answer.rows()) == len(asked["cities"])
        else:
            curator.ask(f"SELECT SUM(x) FROM data WHERE x > {at}", epsilon=1, fresh=True)
        times.append(time.perf_counter() - start)
    curator.close()
    print(json.dumps({"times": times}))


if __name__ == "__main__":
    main()
