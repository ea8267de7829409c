//! Commands speak the language of `--language`.

use crate::support::{Scratch, bare};

/// Each with its exit code and words of it, on either stream.
#[test]
fn commands_speak_chinese() {
    let scratch = Scratch::new();
    let data = scratch.path("data").display().to_string();
    let cases: &[(&[&str], i32, &[&str])] = &[
        (
            &["doctor"],
            0,
            &["正常", "Linux 内核: ", "用户命名空间: ", "1 + 1 等于 2"],
        ),
        (&["env", "list"], 0, &["名称", "软件包", "预加载"]),
        (&["env", "show", bare()], 0, &["名称", "可见目录", "软件包"]),
        (
            &["env", "remove", "nowhere"],
            2,
            &[
                "错误： 没有环境 `nowhere`",
                "提示：运行 `belljar env create",
            ],
        ),
        (
            &["exec", "--env", "nowhere", "1"],
            2,
            &["没有环境 `nowhere`（现有："],
        ),
        (&["keys", "list", "--data", &data], 0, &["中没有密钥和租户"]),
        (&["keys", "create", "--data", &data], 0, &["只显示这一次"]),
        (
            &["keys", "list", "--data", &data],
            0,
            &["密钥", "租户", "最近使用", "有效"],
        ),
        (
            &["keys", "revoke", "x", "--data", &data],
            2,
            &["没有前缀为 `x` 的有效密钥"],
        ),
        (&["tenants", "list", "--data", &data], 0, &["租户", "配额"]),
        (
            &["tenants", "show", "x", "--data", &data],
            2,
            &["没有租户 `x`"],
        ),
        (
            &["tenants", "audit", "--data", &data],
            0,
            &["操作者", "详情"],
        ),
    ];
    for (arguments, code, words) in cases {
        let all = [&["--language", "zh"], *arguments].concat();
        let ended = scratch.belljar(&all).exits_with(*code);
        let said = format!("{}{}", ended.stderr, ended.stdout);
        for word in *words {
            assert!(said.contains(word), "{arguments:?}: {word}\n{said}");
        }
    }
}
