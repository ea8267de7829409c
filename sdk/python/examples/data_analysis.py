"""A file in, an analysis, a table and a figure out. BELLJAR_API_KEY=… python data_analysis.py"""

from __future__ import annotations

from pathlib import Path

from belljar import Belljar

SALES = b"city,month,amount\nOslo,1,3\nRome,1,4\nOslo,2,5\nRome,2,1\n"

ANALYSIS = """
import pandas as pd
sales = pd.read_csv("sales.csv")
totals = sales.groupby("city", as_index=False).amount.sum()
totals.to_csv("totals.csv", index=False)
totals
"""

FIGURE = """
import matplotlib.pyplot as plt
totals.plot.bar(x="city", y="amount")
plt.show()
"""


def main() -> None:
    with Belljar() as belljar, belljar.session() as session:
        session.files.put("sales.csv", SALES)
        # Should a step fail, this is where the next attempt starts.
        session.checkpoint("loaded")
        print(session.run(ANALYSIS).raise_for_status().value)
        figure = session.run(FIGURE).raise_for_status().display
        if figure is not None and figure.png is not None:
            Path("totals.png").write_bytes(figure.png)
        session.files.save("totals.csv", "totals.csv")
        print(Path("totals.csv").read_text())


if __name__ == "__main__":
    main()
