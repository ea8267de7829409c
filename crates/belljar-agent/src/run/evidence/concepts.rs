//! Words for the same thing: a column `amount` is what an answer calls revenue.

use super::words::{labels, mentions};

/// A place in [`CONCEPTS`].
pub(super) type Concept = usize;

const CONCEPTS: [&[&str]; 34] = [
    &[
        "revenue",
        "amount",
        "sales",
        "turnover",
        "income",
        "proceeds",
        "earn",
        "earned",
        "brings",
        "金额",
        "收入",
        "销售额",
        "营收",
        "营业额",
    ],
    &[
        "price", "cost", "costs", "fee", "charge", "pay", "payment", "paid", "spent", "spend",
        "expense", "价格", "费用", "单价", "成本", "花费",
    ],
    &[
        "salary",
        "pay",
        "wage",
        "payroll",
        "earn",
        "earns",
        "compensation",
        "工资",
        "薪",
        "薪资",
    ],
    &["bonus", "奖金"],
    &[
        "population",
        "inhabitant",
        "people",
        "resident",
        "人口",
        "居民",
        "人数",
    ],
    &[
        "staff", "employee", "people", "person", "worker", "员工", "人数", "人员",
    ],
    &[
        "units", "quantity", "qty", "piece", "pieces", "items", "sold", "copies", "stock", "数量",
        "件", "台", "销量", "箱",
    ],
    &[
        "order",
        "orders",
        "transaction",
        "purchase",
        "sale",
        "订单",
        "单",
    ],
    &[
        "weight", "weigh", "weighs", "heavy", "heaviest", "light", "lightest", "mass", "load",
        "重量", "重",
    ],
    &[
        "temp",
        "temperature",
        "hot",
        "hottest",
        "warm",
        "warmest",
        "warmer",
        "cold",
        "coldest",
        "degree",
        "温度",
        "气温",
    ],
    &[
        "rain",
        "rainfall",
        "precipitation",
        "rained",
        "wet",
        "wettest",
        "降雨",
        "降水",
        "雨量",
    ],
    &[
        "duration", "time", "took", "takes", "ms", "minutes", "mins", "seconds", "hours", "slow",
        "slowest", "latency", "spent", "elapsed", "时间", "时长", "小时", "用时", "耗时", "分钟",
        "工时",
    ],
    &[
        "distance",
        "mile",
        "miles",
        "km",
        "far",
        "ran",
        "travelled",
        "kilometre",
        "kilometer",
        "距离",
        "里程",
        "公里",
    ],
    &[
        "score", "rating", "point", "grade", "mark", "分", "成绩", "评分", "得分",
    ],
    &[
        "share",
        "percent",
        "percentage",
        "proportion",
        "ratio",
        "fraction",
        "rate",
        "portion",
        "pct",
        "占",
        "占比",
        "比例",
        "率",
    ],
    &["profit", "gain", "loss", "net", "利润", "亏损", "盈利"],
    &["founded", "since", "built", "established", "成立", "建于"],
    &[
        "balance",
        "owe",
        "outstanding",
        "remaining",
        "left",
        "余额",
        "期末",
        "结余",
    ],
    &["interest", "利息"],
    &["margin", "利润率", "毛利率"],
    &[
        "growth",
        "grew",
        "increase",
        "increased",
        "rise",
        "rose",
        "change",
        "changed",
        "fell",
        "decline",
        "declined",
        "增长",
        "变动",
        "下降",
        "上升",
        "涨",
    ],
    &[
        "age", "aged", "old", "older", "young", "younger", "年龄", "岁",
    ],
    &["area", "m2", "m²", "sqm", "square", "面积", "平方"],
    &["pace", "speed", "fast", "fastest", "速度", "配速"],
    &["height", "tall", "tallest", "身高", "高度"],
    &["error", "errors", "failure", "failed", "错误", "失败"],
    &["visit", "visits", "visitor", "traffic", "访问", "访客"],
    &[
        "diff",
        "difference",
        "gap",
        "apart",
        "between",
        "deviation",
        "差",
        "差距",
        "相差",
    ],
    &["slope", "additional", "每增加"],
    &["conversion", "convert", "converts", "converted", "转化"],
    &[
        "energy",
        "consumption",
        "kwh",
        "wh",
        "power",
        "电量",
        "用电",
        "能耗",
        "耗电",
    ],
    &["size", "bytes", "kb", "mb", "gb", "large", "大小"],
    &["deaths", "died", "killed", "死亡"],
    &["lift", "better", "worse", "uplift", "提升"],
];

/// What the words of a text are about.
pub(super) fn concepts(text: &str) -> Vec<Concept> {
    let has = |names: &&[&str]| {
        names
            .iter()
            .any(|name| !mentions(text, name).is_empty() || is_name(text, name))
    };
    let found = CONCEPTS.iter().enumerate().filter(|(_, names)| has(names));
    found.map(|(at, _)| at).collect()
}

/// `temp_c` has a temperature.
fn is_name(text: &str, name: &str) -> bool {
    text.contains('_') && labels(text).iter().any(|label| label == name)
}

/// Whether a text speaks of a column or a name: by its words, or by others for the same.
pub(super) fn speaks_of(text: &str, spoken: &[Concept], name: &str) -> bool {
    let words = labels(name);
    let is_said = |word: &String| word.chars().count() > 1 && !mentions(text, word).is_empty();
    words.iter().any(is_said) || concepts(name).iter().any(|one| spoken.contains(one))
}
