//! The example tasks of demo mode, and the replies of the scripted model. The code runs in a real
//! session, and the
//! values of an answer are those that it printed.

use belljar_sandbox::protocol::texts::DemoTexts;

/// A text of the catalogue.
pub(super) type Text = fn(&'static DemoTexts) -> &'static str;

/// A task that the model knows.
pub(super) struct Example {
    pub(super) id: &'static str,
    pub(super) title: Text,
    pub(super) task: Text,
    pub(super) files: &'static [(&'static str, &'static str)],
    /// Whether a person is asked before each cell.
    pub(super) asks: bool,
    pub(super) turns: &'static [Turn],
    pub(super) answer: Text,
}

/// What the model says in one step.
pub(super) enum Turn {
    /// A thought, and code.
    Code(Text, &'static str),
    /// A goal, and tasks with where they stand.
    Plan(Text, &'static [(Text, &'static str)]),
}

pub(super) const EXAMPLES: &[Example] = &[
    Example {
        id: "sales",
        title: |texts| texts.sales_title,
        task: |texts| texts.sales_task,
        files: &[("sales.csv", include_str!("sales.csv"))],
        asks: false,
        turns: &[
            Turn::Code(
                |texts| texts.sales_look,
                "import pandas as pd\n\nsales = pd.read_csv('sales.csv')\nprint(f'rows = {len(sales)}')\nsales.head()",
            ),
            Turn::Code(
                |texts| texts.sales_sum,
                "sales['revenue'] = sales['units'] * sales['price']\n\
                 by_region = sales.groupby('region')['revenue'].sum().sort_values(ascending=False)\n\
                 print(f'best = {by_region.index[0]}')\n\
                 print(f'most = {by_region.iloc[0]:.2f}')\n\
                 print(f'total = {by_region.sum():.2f}')\n\
                 by_region.to_frame()",
            ),
            Turn::Code(
                |texts| texts.sales_chart,
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
        answer: |texts| texts.sales_answer,
    },
    Example {
        id: "repair",
        title: |texts| texts.repair_title,
        task: |texts| texts.repair_task,
        files: &[("orders.csv", include_str!("orders.csv"))],
        asks: false,
        turns: &[
            Turn::Plan(
                |texts| texts.repair_goal,
                &[
                    (|texts| texts.repair_read, "processing"),
                    (|texts| texts.repair_add, "pending"),
                    (|texts| texts.repair_check, "pending"),
                ],
            ),
            Turn::Code(
                |texts| texts.repair_numbers,
                "import pandas as pd\n\norders = pd.read_csv('orders.csv')\n\
                 orders['amount'] = orders['amount'].astype(float)\n\
                 print(orders.groupby('customer')['amount'].sum())",
            ),
            Turn::Code(
                |texts| texts.repair_commas,
                "amounts = orders['amount'].astype('string').str.replace(',', '')\n\
                 orders['paid'] = pd.to_numeric(amounts, errors='coerce')\n\
                 unclear = orders[orders['paid'].isna()]\n\
                 paid = orders.groupby('customer')['paid'].sum().sort_values(ascending=False)\n\
                 for customer, amount in paid.items():\n    print(f'{customer} = {amount:.2f}')\n\
                 print(f\"left_out = {', '.join(str(order) for order in unclear['order'])}\")\n\
                 unclear",
            ),
            Turn::Plan(
                |texts| texts.repair_goal,
                &[
                    (|texts| texts.repair_read, "completed"),
                    (|texts| texts.repair_add, "completed"),
                    (|texts| texts.repair_check, "completed"),
                ],
            ),
        ],
        answer: |texts| texts.repair_answer,
    },
    Example {
        id: "approval",
        title: |texts| texts.approval_title,
        task: |texts| texts.approval_task,
        files: &[("customers.csv", include_str!("customers.csv"))],
        asks: true,
        turns: &[Turn::Code(
            |texts| texts.approval_remove,
            "import pandas as pd\n\n\
             customers = pd.read_csv('customers.csv')\n\
             kept = customers[customers['wants_deletion'] == 'no']\n\
             kept.to_csv('customers.csv', index=False)\n\
             print(f'kept = {len(kept)}')\n\
             print(f'removed = {len(customers) - len(kept)}')\n\
             kept",
        )],
        answer: |texts| texts.approval_answer,
    },
    Example {
        id: "crash",
        title: |texts| texts.crash_title,
        task: |texts| texts.crash_task,
        files: &[],
        asks: false,
        turns: &[
            Turn::Code(
                |texts| texts.crash_count,
                "limit = 20_000\nis_prime = [False, False] + [True] * (limit - 2)\n\
                 for n in range(2, int(limit ** 0.5) + 1):\n    if is_prime[n]:\n        \
                 is_prime[n * n::n] = [False] * len(is_prime[n * n::n])\n\
                 primes = [n for n in range(limit) if is_prime[n]]\n\
                 print(f'count = {len(primes)}')",
            ),
            Turn::Code(
                |texts| texts.crash_now,
                "import os\n\nprint('the last words of this process')\nos.abort()",
            ),
            Turn::Code(
                |texts| texts.crash_check,
                "print(f'still = {len(primes)}')\nprint(f'largest = {primes[-1]}')",
            ),
        ],
        answer: |texts| texts.crash_answer,
    },
];

/// What is done for a task that the model does not know.
pub(super) const OTHER: Example = Example {
    id: "other",
    title: |_| "",
    task: |_| "",
    files: &[],
    asks: false,
    turns: &[Turn::Code(
        |texts| texts.other_code,
        "import os\nimport platform\n\n\
         print(f'python = {platform.python_version()}')\n\
         print(f\"files = {', '.join(sorted(os.listdir())) or 'none'}\")",
    )],
    answer: |texts| texts.other_answer,
};
