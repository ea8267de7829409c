use super::*;

/// What the last cell shows, with its output, at the first place of this text.
fn at(cells: &[&str], output: &str, value: &str) -> Option<Place> {
    let mut names = Cells::default();
    let mut shown = Vec::new();
    for (number, code) in (1..).zip(cells) {
        shown = names.follow(code, Some(number));
    }
    let place = output.find(value).unwrap();
    bind(&shown, output)?.at(&output[place..place + value.len()])
}

fn words(words: &Words) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[test]
fn a_printed_value_has_its_expression_and_what_it_was_computed_from() {
    let read = "import pandas as pd\ndf = pd.read_csv('sales.csv')";
    let sum = "north = df[df['region'] == 'North']\nprint('total', north['amount'].sum())";
    let found = at(&[read, sum], "total 4830.5\n", "4830.5").unwrap();
    assert_eq!(found.code, "north['amount'].sum()");
    assert_eq!(found.made.outer(), Some(Measure::Sum));
    assert_eq!(words(&found.made.about), ["amount"]);
    assert_eq!(words(&found.made.limits), ["North", "region"]);
    assert_eq!(found.made.files.iter().collect::<Vec<_>>(), ["sales.csv"]);
    let inputs = found.made.inputs.iter();
    let inputs: Vec<_> = inputs
        .map(|(name, origin)| (name.as_str(), origin.cell))
        .collect();
    assert_eq!(inputs, [("df", Some(1)), ("north", Some(2))]);
    assert_eq!(
        found.made.inputs["df"].code,
        "df = pd.read_csv('sales.csv')"
    );
}

#[test]
fn measures_are_those_of_the_calls() {
    for (code, measure) in [
        ("sum(x)", Measure::Sum),
        ("len(x)", Measure::Count),
        ("len({one for one in x})", Measure::Distinct),
        ("sum(one > 3 for one in x)", Measure::Count),
        ("sum(1 for one in x if one)", Measure::Count),
        ("sum(x) / len(x)", Measure::Mean),
        ("max(x)", Measure::Max),
        ("statistics.median(x)", Measure::Median),
        ("round(100 * sum(x) / y, 1)", Measure::Ratio),
        ("max(x) - min(x)", Measure::Difference),
        ("np.std(x)", Measure::Spread),
    ] {
        let code = format!("x = [int(one) for one in open('a.txt')]\ny = sum(x)\nprint({code})");
        let found = at(&[&code], "7\n", "7").unwrap();
        assert_eq!(found.made.outer(), Some(measure), "{code}");
    }
}

#[test]
fn a_position_of_a_tuple_is_one_expression() {
    let code = "rows = []\nfor line in open('a.log'):\n    name, code, ms = line.split()\n    rows.append((name, int(code), int(ms)))\nfor r in rows:\n    print(r)";
    let output = "('a', 502, 804)\n('b', 200, 12)\n";
    let found = at(&[code], output, "502").unwrap();
    assert_eq!(words(&found.made.about), ["code"]);
    let others: Vec<_> = found.others.iter().flat_map(|one| &one.about).collect();
    assert_eq!(others, ["name", "ms"]);
    assert!(found.is_row);
    let found = at(&[code], output, "12").unwrap();
    assert_eq!(words(&found.made.about), ["ms"]);
}

#[test]
fn a_column_of_a_table_is_one_aggregate() {
    let code = "df = pd.read_csv('p.csv')\ndf.groupby('carrier')[['weight_g', 'price']].agg(['sum', 'mean'])";
    let output = "        weight_g         price       \n             sum    mean   sum   mean\ncarrier                              \nOrbit       5550  2775.0  2698  1349.0\n";
    let found = at(&[code], output, "2698").unwrap();
    assert!(found.made.about.contains("price"), "{found:?}");
    assert_eq!(found.made.outer(), Some(Measure::Sum));
    let found = at(&[code], output, "2775.0").unwrap();
    assert!(found.made.about.contains("weight_g"), "{found:?}");
    assert_eq!(found.made.outer(), Some(Measure::Mean));
}

#[test]
fn lines_belong_to_the_statements_that_showed_them() {
    let code = "t = pd.read_csv('t.csv')\nprint(t.groupby('land')['people'].sum())\nprint(t['people'].median())\nfor a in [1, 2]:\n    print(f'{a}: {t.size}')\nlen(t)";
    let output = "land\nA    5\nB    6\nName: people, dtype: int64\n77.5\n1: 30\n2: 30\n10\n";
    let measure = |value| at(&[code], output, value).unwrap().made.outer();
    assert_eq!(measure("6"), Some(Measure::Sum));
    assert_eq!(measure("77.5"), Some(Measure::Median));
    assert_eq!(measure("30"), Some(Measure::Count));
    assert_eq!(measure("10"), Some(Measure::Count));
    // Lines that no statement can have shown.
    assert!(at(&["print('total', x)"], "sum 7\n", "7").is_none());
}

#[test]
fn functions_of_the_cells_are_followed() {
    let define = "def share(rows):\n    return sum(r['paid'] for r in rows) / len(rows)";
    let found = at(
        &[define, "rows = json.load(open('r.json'))\nshare(rows)"],
        "0.5\n",
        "0.5",
    )
    .unwrap();
    assert_eq!(found.made.outer(), Some(Measure::Mean));
    assert!(found.made.files.contains("r.json"));
}

/// Code that doubles a value in each line must not fill the memory.
#[test]
fn values_have_a_bounded_size() {
    let mut code = "x = (1, 2)\n".to_owned();
    for _ in 0..60 {
        code.push_str("x = (x, x)\n");
    }
    code.push_str("def f(n):\n    return f(f(f(n)))\nprint(f(x))\n");
    let begun = std::time::Instant::now();
    at(&[&code], "7\n", "7");
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

proptest::proptest! {
    #[test]
    fn any_code_is_followed(code in ".{0,200}", output in ".{0,100}") {
        let shown = Cells::default().follow(&code, None);
        if let Some(bound) = bind(&shown, &output) {
            bound.at(&output);
        }
    }
}
