//! What the code of cells computes: sums, means, counts, and which names and outputs have them.
//!
//! It decides only whether a printed value can be the total that a task asks for. A name has the computations of all that was
//! assigned to it, in any cell.

use std::collections::BTreeMap;
use std::ops::BitOr;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, Mod, Operator, Stmt};

use crate::dialect::with_syntax;

/// A set of computations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work(u8);

impl Work {
    pub(super) const SUM: Self = Self(1);
    pub(super) const COUNT: Self = Self(2);
    pub(super) const MEAN: Self = Self(4);
    pub(super) const MEDIAN: Self = Self(8);
    pub(super) const DISTINCT: Self = Self(16);
    pub(super) const MAX: Self = Self(32);
    pub(super) const MIN: Self = Self(64);
    /// Any arithmetic.
    pub(super) const ARITHMETIC: Self = Self(128);
    /// What may be anything.
    pub(super) const ALL: Self = Self(255);

    /// Whether it has one of these.
    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether it has all of these.
    pub(super) fn has_all(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Work {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Functions, methods and attributes, and what they compute. Others compute nothing of this.
const COMPUTES: &[(&str, Work)] = {
    const SORT: Work = Work(Work::MAX.0 | Work::MIN.0 | Work::MEDIAN.0);
    const GROUPS: Work = Work(Work::COUNT.0 | Work::DISTINCT.0);
    &[
        ("sum", Work::SUM),
        ("fsum", Work::SUM),
        ("nansum", Work::SUM),
        ("cumsum", Work::SUM),
        ("reduce", Work::ALL),
        ("accumulate", Work::SUM),
        ("dot", Work::SUM),
        ("len", Work::COUNT),
        ("count", Work::COUNT),
        ("size", Work::COUNT),
        ("shape", Work::COUNT),
        ("value_counts", GROUPS),
        ("Counter", GROUPS),
        ("nunique", GROUPS),
        ("unique", Work::DISTINCT),
        ("set", Work::DISTINCT),
        ("drop_duplicates", Work::DISTINCT),
        ("duplicated", Work::DISTINCT),
        ("fromkeys", Work::DISTINCT),
        ("groupby", Work::DISTINCT),
        ("defaultdict", Work::DISTINCT),
        ("most_common", Work(Work::MAX.0 | Work::COUNT.0)),
        ("mean", Work::MEAN),
        ("average", Work::MEAN),
        ("avg", Work::MEAN),
        ("fmean", Work::MEAN),
        ("nanmean", Work::MEAN),
        ("median", Work::MEDIAN),
        ("nanmedian", Work::MEDIAN),
        ("quantile", Work::MEDIAN),
        ("percentile", Work::MEDIAN),
        ("max", Work::MAX),
        ("nanmax", Work::MAX),
        ("amax", Work::MAX),
        ("idxmax", Work::MAX),
        ("argmax", Work::MAX),
        ("nlargest", Work::MAX),
        ("min", Work::MIN),
        ("nanmin", Work::MIN),
        ("amin", Work::MIN),
        ("idxmin", Work::MIN),
        ("argmin", Work::MIN),
        ("nsmallest", Work::MIN),
        ("sort", SORT),
        ("sorted", SORT),
        ("sort_values", SORT),
        ("sort_index", SORT),
        ("argsort", SORT),
        ("rank", SORT),
        ("agg", Work::ALL),
        ("aggregate", Work::ALL),
        ("apply", Work::ALL),
        ("describe", Work::ALL),
        ("pivot_table", Work::ALL),
        ("crosstab", Work::ALL),
        ("resample", Work::ALL),
        ("rolling", Work::ALL),
        ("transform", Work::ALL),
    ]
};

/// Aggregates of SQL, as they begin.
const SQL: [(&str, Work); 6] = [
    ("SUM(", Work::SUM),
    ("AVG(", Work::MEAN),
    ("COUNT(", Work::COUNT),
    ("DISTINCT", Work::DISTINCT),
    ("MAX(", Work::MAX),
    ("MIN(", Work::MIN),
];

fn computed_by(name: &str) -> Work {
    let known = COMPUTES.iter().find(|(known, _)| *known == name);
    known.map_or(Work::default(), |(_, work)| *work)
}

/// What a cell does.
#[derive(Clone, Debug, Default)]
pub(super) struct CellWork {
    /// The computations of what it prints.
    pub(super) printed: Work,
    /// The computations of all of it.
    pub(super) all: Work,
    /// Whether it takes elements by their position.
    pub(super) by_position: bool,
}

/// What each cell does. The names of earlier cells are known in later ones.
pub(super) fn work_of<'a>(cells: impl Iterator<Item = &'a str>) -> Vec<CellWork> {
    let mut names = BTreeMap::new();
    cells
        .map(|code| {
            let known = std::mem::take(&mut names);
            let read = with_syntax(code, |parsed| {
                let mut reader = Reader {
                    names: known,
                    ..Reader::default()
                };
                if let Mod::Module(module) = parsed.syntax() {
                    reader.visit_body(&module.body);
                    if let Some(Stmt::Expr(last)) = module.body.last() {
                        reader.cell.printed = reader.cell.printed | reader.work(&last.value);
                    }
                }
                (reader.names, reader.cell)
            });
            // Too long to be read.
            let unread = CellWork {
                printed: Work::ALL,
                all: Work::ALL,
                by_position: true,
            };
            let (learned, cell) = read.unwrap_or((BTreeMap::new(), unread));
            names = learned;
            cell
        })
        .collect()
}

#[derive(Default)]
struct Reader {
    names: BTreeMap<String, Work>,
    cell: CellWork,
}

impl Reader {
    fn work(&mut self, expr: &Expr) -> Work {
        let mut look = Look {
            names: &self.names,
            work: Work::default(),
            by_position: false,
        };
        look.visit_expr(expr);
        let (work, by_position) = (look.work, look.by_position);
        self.cell.all = self.cell.all | work;
        self.cell.by_position |= by_position;
        work
    }

    /// A name, or the container that an element is assigned to, has this now too.
    fn assign(&mut self, target: &Expr, work: Work) {
        match target {
            // Functions are also passed by their names: `map(len, words)`.
            Expr::Name(name) => {
                let known = self.names.entry(name.id.to_string()).or_default();
                *known = *known | work;
            }
            Expr::Subscript(part) => self.assign(&part.value, work),
            Expr::Attribute(part) => self.assign(&part.value, work),
            Expr::Starred(part) => self.assign(&part.value, work),
            Expr::Tuple(parts) => parts.elts.iter().for_each(|part| self.assign(part, work)),
            Expr::List(parts) => parts.elts.iter().for_each(|part| self.assign(part, work)),
            _ => {}
        }
    }
}

impl<'a> Visitor<'a> for Reader {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Assign(assign) => {
                let work = self.work(&assign.value);
                assign
                    .targets
                    .iter()
                    .for_each(|target| self.assign(target, work));
            }
            Stmt::AnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    let work = self.work(value);
                    self.assign(&assign.target, work);
                }
            }
            Stmt::AugAssign(assign) => {
                let mut work = self.work(&assign.value) | Work::ARITHMETIC;
                if assign.op == Operator::Add {
                    work = work | Work::SUM | Work::COUNT;
                }
                self.cell.all = self.cell.all | work;
                self.assign(&assign.target, work);
            }
            Stmt::For(each) => {
                let work = self.work(&each.iter);
                self.assign(&each.target, work);
                self.visit_body(&each.body);
                self.visit_body(&each.orelse);
            }
            Stmt::FunctionDef(function) => {
                let before = std::mem::take(&mut self.cell.all);
                self.visit_body(&function.body);
                let name = function.name.id.to_string();
                self.names.insert(name, self.cell.all);
                self.cell.all = self.cell.all | before;
            }
            Stmt::Return(returned) => {
                if let Some(value) = &returned.value {
                    self.work(value);
                }
            }
            Stmt::Expr(statement) => {
                let work = self.work(&statement.value);
                if let Expr::Call(call) = &*statement.value {
                    match &*call.func {
                        Expr::Name(name)
                            if matches!(
                                name.id.as_str(),
                                "print" | "display" | "pprint" | "cite"
                            ) =>
                        {
                            self.cell.printed = self.cell.printed | work;
                        }
                        // What is added to a list, a set or a file.
                        Expr::Attribute(method) => self.assign(&method.value, work),
                        // A function may print what it computes.
                        Expr::Name(name) if self.names.contains_key(name.id.as_str()) => {
                            self.cell.printed = self.cell.printed | work;
                        }
                        _ => {}
                    }
                }
            }
            _ => visitor::walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        self.work(expr);
    }
}

/// What one expression computes.
struct Look<'n> {
    names: &'n BTreeMap<String, Work>,
    work: Work,
    by_position: bool,
}

impl<'a> Visitor<'a> for Look<'_> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        let work = match expr {
            // Functions are also passed by their names: `map(len, words)`.
            Expr::Name(name) => {
                let known = self.names.get(name.id.as_str()).copied();
                known.unwrap_or_default() | computed_by(name.id.as_str())
            }
            Expr::Attribute(attribute) => computed_by(attribute.attr.id.as_str()),
            Expr::StringLiteral(text) => computed_by_text(text.value.to_str()),
            Expr::SetComp(_) | Expr::Set(_) | Expr::DictComp(_) => Work::DISTINCT,
            Expr::BinOp(both) => match both.op {
                Operator::Add if is_text(&both.left) || is_text(&both.right) => Work::default(),
                Operator::Add => Work::SUM | Work::ARITHMETIC,
                Operator::BitAnd | Operator::BitOr | Operator::BitXor => Work::default(),
                Operator::Mod if is_text(&both.left) => Work::default(),
                _ => Work::ARITHMETIC,
            },
            Expr::Subscript(part) => {
                self.by_position |= matches!(&*part.slice, Expr::NumberLiteral(_));
                Work::default()
            }
            _ => Work::default(),
        };
        self.work = self.work | work;
        visitor::walk_expr(self, expr);
    }
}

/// The name of a function as a text, as pandas takes it, or SQL.
fn computed_by_text(text: &str) -> Work {
    let upper = text.to_uppercase();
    let selects = upper.contains("SELECT");
    let found = SQL
        .iter()
        .filter(|(begins, _)| selects && upper.contains(begins));
    found.fold(computed_by(text), |work, (_, more)| work | *more)
}

fn is_text(expr: &Expr) -> bool {
    match expr {
        Expr::StringLiteral(_) | Expr::FString(_) => true,
        Expr::Call(call) => matches!(&*call.func, Expr::Name(name) if name.id.as_str() == "str"),
        Expr::BinOp(both) => is_text(&both.left) || is_text(&both.right),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(cells: &[&str]) -> Work {
        work_of(cells.iter().copied()).pop().unwrap().printed
    }

    #[test]
    fn computations_are_found_in_any_style() {
        for (cells, work) in [
            (&["print(df['a'].sum())"][..], Work::SUM),
            (
                &["t = df.groupby('r').a.sum()", "print(t.max())"],
                Work::SUM,
            ),
            (
                &["t = 0\nfor r in rows:\n    t += r['a']\nprint(t)"],
                Work::SUM,
            ),
            (
                &["t = {}\nfor r in rows:\n    t[r.k] = t.get(r.k, 0) + r.a\nprint(t)"],
                Work::SUM,
            ),
            (&["df.groupby('r').agg({'a': 'sum'})"], Work::SUM),
            (
                &["con.execute('select sum(a) from t').fetchall()"],
                Work::SUM,
            ),
            (
                &["def total(rows):\n    return sum(rows)\nprint(total(x))"],
                Work::SUM,
            ),
            (
                &["def main():\n    n = len(x)\n    print(n)\nmain()"],
                Work::COUNT,
            ),
            (&["print(a + b)"], Work::SUM),
            (&["print(len({r['p'] for r in rows}))"], Work::DISTINCT),
        ] {
            assert!(printed(cells).has(work), "{cells:?}");
        }
        for (cells, work) in [
            (&["print(df[df.p == 'x'].iloc[0].a)"][..], Work::SUM),
            (&["n = len(df)", "print(df.a[0])"], Work::COUNT),
            (&["print('Total: ' + str(x))"], Work::SUM),
            (
                &["for r in rows:\n    total = r['a']\nprint(total)"],
                Work::SUM,
            ),
            (&["print(df.a.mean())"], Work::MEDIAN),
            (&["this is no Python ("], Work::SUM),
        ] {
            assert!(!printed(cells).has(work), "{cells:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_code_is_read(code in ".{0,200}") {
            work_of([code.as_str(), code.as_str()].into_iter());
        }
    }
}
