// A file in, an analysis, a table and a figure out. BELLJAR_API_KEY=… node data-analysis.js
import { writeFile } from 'node:fs/promises';
import { Belljar } from 'belljar';

const SALES = 'city,month,amount\nOslo,1,3\nRome,1,4\nOslo,2,5\nRome,2,1\n';

const ANALYSIS = `
import pandas as pd
sales = pd.read_csv("sales.csv")
totals = sales.groupby("city", as_index=False).amount.sum()
totals.to_csv("totals.csv", index=False)
totals
`;

const FIGURE = `
import matplotlib.pyplot as plt
totals.plot.bar(x="city", y="amount")
plt.show()
`;

await using belljar = new Belljar();
const session = await belljar.session();
await session.files.put('sales.csv', SALES);
// Should a step fail, this is where the next attempt starts.
await session.checkpoint('loaded');
const outcome = (await session.run(ANALYSIS)).throwIfFailed();
console.log(outcome.display?.table?.rows);
const figure = (await session.run(FIGURE)).throwIfFailed().display?.png;
if (figure !== undefined) await writeFile('totals.png', figure);
console.log(await session.files.getText('totals.csv'));
