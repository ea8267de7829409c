//! The example tasks of demo mode, and the replies of the scripted model. The code runs in a real
//! session, and the
//! values of an answer are those that it printed.

/// A text in English and in Chinese.
pub(super) type Words = [&'static str; 2];

/// A task that the model knows.
pub(super) struct Example {
    pub(super) id: &'static str,
    pub(super) title: Words,
    pub(super) task: Words,
    pub(super) files: &'static [(&'static str, &'static str)],
    /// Whether a person is asked before each cell.
    pub(super) asks: bool,
    pub(super) turns: &'static [Turn],
    pub(super) answer: Words,
}

/// What the model says in one step.
pub(super) enum Turn {
    /// A thought, and code.
    Code(Words, &'static str),
    /// A goal, and tasks with where they stand.
    Plan(Words, &'static [(Words, &'static str)]),
}

pub(super) const EXAMPLES: &[Example] = &[
    Example {
        id: "sales",
        title: ["A sales table, with a chart", "销售表与图表"],
        task: [
            "Which region had the most revenue in sales.csv, and how much was it in all? Draw the revenue of each month.",
            "sales.csv 中哪个地区的收入最高？总收入是多少？请画出每月收入。",
        ],
        files: &[("sales.csv", include_str!("sales.csv"))],
        asks: false,
        turns: &[
            Turn::Code(
                [
                    "Task: one region, its revenue, the sum, and a chart. First, look at the table.",
                    "要求：一个地区、其收入、总收入和一张图。先查看表格。",
                ],
                "import pandas as pd\n\nsales = pd.read_csv('sales.csv')\nprint(f'rows = {len(sales)}')\nsales.head()",
            ),
            Turn::Code(
                [
                    "Revenue is units times price. By region, largest first.",
                    "收入等于数量乘以单价。按地区汇总，从大到小。",
                ],
                "sales['revenue'] = sales['units'] * sales['price']\n\
                 by_region = sales.groupby('region')['revenue'].sum().sort_values(ascending=False)\n\
                 print(f'best = {by_region.index[0]}')\n\
                 print(f'most = {by_region.iloc[0]:.2f}')\n\
                 print(f'total = {by_region.sum():.2f}')\n\
                 by_region.to_frame()",
            ),
            Turn::Code(
                [
                    "Now the chart, saved as a file.",
                    "现在画图，并保存为文件。",
                ],
                "import matplotlib.pyplot as plt\n\n\
                 by_month = sales.pivot_table(index='month', columns='region', values='revenue', aggfunc='sum')\n\
                 axes = by_month.plot.bar(stacked=True, figsize=(8, 4.5), rot=0)\n\
                 axes.set_ylabel('revenue')\n\
                 axes.set_title('Revenue of each month')\n\
                 plt.tight_layout()\n\
                 plt.savefig('revenue.png', dpi=120)\n\
                 plt.show()\n\
                 print(f'month = {by_month.sum(axis=1).idxmax()}')",
            ),
        ],
        answer: [
            "{best} had the most revenue: {most} of {total} in all. The strongest month was {month}. The chart is in revenue.png.",
            "收入最高的地区是 {best}：{most}，总收入为 {total}。最好的月份是 {month}。图表在 revenue.png 中。",
        ],
    },
    Example {
        id: "repair",
        title: ["An error and its repair", "出错与修复"],
        task: [
            "What did each customer of orders.csv pay in all? Say which orders could not be counted.",
            "orders.csv 中每位客户一共支付了多少？请指出哪些订单无法计入。",
        ],
        files: &[("orders.csv", include_str!("orders.csv"))],
        asks: false,
        turns: &[
            Turn::Plan(
                ["The amount that each customer paid", "每位客户支付的金额"],
                &[
                    (["Read the orders", "读取订单"], "processing"),
                    (["Add up the amounts", "汇总金额"], "pending"),
                    (["Check what was left out", "检查遗漏"], "pending"),
                ],
            ),
            Turn::Code(
                [
                    "Task: one amount per customer. Read the amounts as numbers.",
                    "要求：每位客户一个金额。把金额读成数字。",
                ],
                "import pandas as pd\n\norders = pd.read_csv('orders.csv')\n\
                 orders['amount'] = orders['amount'].astype(float)\n\
                 print(orders.groupby('customer')['amount'].sum())",
            ),
            Turn::Code(
                [
                    "Some amounts have a comma, which Python does not parse, and one may be missing. Remove the \
                     commas and check the rest.",
                    "有些金额带逗号，Python 不能直接读成数字；可能还有缺失。去掉逗号，再看剩下什么。",
                ],
                "amounts = orders['amount'].astype('string').str.replace(',', '')\n\
                 orders['paid'] = pd.to_numeric(amounts, errors='coerce')\n\
                 unclear = orders[orders['paid'].isna()]\n\
                 paid = orders.groupby('customer')['paid'].sum().sort_values(ascending=False)\n\
                 for customer, amount in paid.items():\n    print(f'{customer} = {amount:.2f}')\n\
                 print(f\"left_out = {', '.join(str(order) for order in unclear['order'])}\")\n\
                 unclear",
            ),
            Turn::Plan(
                ["The amount that each customer paid", "每位客户支付的金额"],
                &[
                    (["Read the orders", "读取订单"], "completed"),
                    (["Add up the amounts", "汇总金额"], "completed"),
                    (["Check what was left out", "检查遗漏"], "completed"),
                ],
            ),
        ],
        answer: [
            "Okafor paid {Okafor}, Moreau {Moreau}, Lindqvist {Lindqvist} and Tanaka {Tanaka}. Order {left_out} has no amount and is not counted.",
            "Okafor 支付 {Okafor}，Moreau {Moreau}，Lindqvist {Lindqvist}，Tanaka {Tanaka}。订单 {left_out} 没有金额，未计入。",
        ],
    },
    Example {
        id: "approval",
        title: ["A cell that needs approval", "等待批准的单元"],
        task: [
            "Remove the customers who asked for deletion from customers.csv. I approve everything before it \
             runs.",
            "从 customers.csv 中删除要求删除的客户。每次运行前由我批准。",
        ],
        files: &[("customers.csv", include_str!("customers.csv"))],
        asks: true,
        turns: &[Turn::Code(
            [
                "Task: the file without the customers who asked for deletion. This changes a file: you can \
                 approve it, edit it, or give feedback.",
                "要求：文件中不含要求删除的客户。这会修改文件：你可以批准、编辑或给出反馈。",
            ],
            "import pandas as pd\n\n\
             customers = pd.read_csv('customers.csv')\n\
             kept = customers[customers['wants_deletion'] == 'no']\n\
             kept.to_csv('customers.csv', index=False)\n\
             print(f'kept = {len(kept)}')\n\
             print(f'removed = {len(customers) - len(kept)}')\n\
             kept",
        )],
        answer: [
            "Your decision was executed. customers.csv: kept {kept}, removed {removed}.",
            "已按你的决定执行。customers.csv：保留 {kept}，删除 {removed}。",
        ],
    },
    Example {
        id: "crash",
        title: ["A crash, and the restored state", "崩溃与恢复的状态"],
        task: [
            "Count the primes below 20,000. Then crash the interpreter, and show which results are still \
             there.",
            "统计小于 20,000 的质数。然后让解释器崩溃，并展示哪些工作成果还在。",
        ],
        files: &[],
        asks: false,
        turns: &[
            Turn::Code(
                [
                    "Task: one count. First, the computation.",
                    "要求：一个计数。先完成计算。",
                ],
                "limit = 20_000\nis_prime = [False, False] + [True] * (limit - 2)\n\
                 for n in range(2, int(limit ** 0.5) + 1):\n    if is_prime[n]:\n        \
                 is_prime[n * n::n] = [False] * len(is_prime[n * n::n])\n\
                 primes = [n for n in range(limit) if is_prime[n]]\n\
                 print(f'count = {len(primes)}')",
            ),
            Turn::Code(
                [
                    "Now the crash: the process aborts in the middle of a cell, as with a faulty library.",
                    "现在崩溃：进程在单元执行中结束，就像有缺陷的库会造成的那样。",
                ],
                "import os\n\nprint('the last words of this process')\nos.abort()",
            ),
            Turn::Code(
                [
                    "The interpreter crashed. The session was restored from the checkpoint before the cell: \
                     check it.",
                    "解释器已崩溃。会话已从该单元之前的检查点恢复：检查一下。",
                ],
                "print(f'still = {len(primes)}')\nprint(f'largest = {primes[-1]}')",
            ),
        ],
        answer: [
            "There are {count} primes below 20,000. After the crash all {still} were still there; the largest is {largest}.",
            "小于 20,000 的质数有 {count} 个。崩溃后 {still} 个都还在；最大的是 {largest}。",
        ],
    },
];

/// What is done for a task that the model does not know.
pub(super) const OTHER: Example = Example {
    id: "other",
    title: ["", ""],
    task: ["", ""],
    files: &[],
    asks: false,
    turns: &[Turn::Code(
        [
            "This is a demo without a language model, and I know only four tasks; yours is not one of them. I \
             run a small cell to show a session at work.",
            "这是没有语言模型的演示，我只认识四个任务，你的任务不在其中。我运行一个小单元，展示会话如何工作。",
        ],
        "import os\nimport platform\n\n\
         print(f'python = {platform.python_version()}')\n\
         print(f\"files = {', '.join(sorted(os.listdir())) or 'none'}\")",
    )],
    answer: [
        "This is a demo without a language model, so your task was not executed. The session is real: it runs Python {python}; its files: {files}. Start `belljar serve --model PROVIDER/MODEL` for real runs.",
        "这是没有语言模型的演示，所以你的任务没有完成。会话是真实的：Python {python}；文件：{files}。要真正运行，请启动 `belljar serve --model PROVIDER/MODEL`。",
    ],
};
