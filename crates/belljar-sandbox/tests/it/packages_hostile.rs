//! Packages whose authors mean harm: nothing of them runs on the host, or is written outside of
//! their layer.

use belljar_sandbox::{Error, PackageError, Packages};
use serde_json::json;

use crate::support::{bare_environment, good, printed};
use crate::wheels::{Shop, files_beneath, install};

/// Python that leaves a mark where it runs, if that is the host.
fn mark(shop: &Shop) -> String {
    format!(
        "open('{}', 'w').write('ran')\n",
        shop.path("mark").display()
    )
}

fn assert_unmarked(shop: &Shop) {
    assert!(
        !shop.path("mark").exists(),
        "code of a package ran on the host"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_wheel_stay_in_its_layer() {
    let shop = Shop::new();
    let outside = shop.path("escaped").display().to_string();
    for (name, path) in [
        ("climbs", "../../../../escaped"),
        ("climbs_far", &format!("{}{outside}", "../".repeat(30))),
        ("absolute", outside.as_str()),
        ("by_data", "by_data-1.0.data/data/../../../../escaped"),
        ("by_scripts", "by_scripts-1.0.data/scripts/../../../escaped"),
        (
            "by_purelib",
            &format!("by_purelib-1.0.data/purelib/{outside}"),
        ),
    ] {
        let files = json!({path: "x", format!("{name}.py"): "x = 1\n"});
        shop.wheel(name, json!({"files": files}));
        let session = shop.session().await;
        // To leave the entry out and to refuse the wheel are both good.
        if install(&session, name).await.is_ok() {
            good(&session, &format!("import {name}")).await;
        }
        let all = files_beneath(shop.path("data").parent().unwrap());
        let escaped = |path: &&std::path::PathBuf| {
            path.ends_with("escaped")
                && !path.starts_with(shop.path("data/packages/layers"))
                && !path.starts_with(shop.path("data/packages/uv"))
        };
        assert_eq!(all.iter().find(escaped), None, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_in_a_wheel_leads_nowhere() {
    let shop = Shop::new();
    let secret = shop.path("secret");
    std::fs::write(&secret, "of the host").unwrap();
    let links = json!({"linked/secret.txt": secret, "linked/all": "/"});
    let files = json!({"linked/__init__.py": ""});
    shop.wheel("linked", json!({"files": files, "links": links}));
    let session = shop.session().await;
    if install(&session, "linked").await.is_ok() {
        let code = "import linked, os\nd = os.path.dirname(linked.__file__)\n\
            print([n for n in os.listdir(d) if os.path.islink(d + '/' + n)])";
        assert_eq!(printed(&session, code).await, "[]\n");
        let secret = "print('of the host' in open(d + '/secret.txt').read())";
        assert_eq!(printed(&session, secret).await, "False\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_wheel_runs_before_it_is_imported() {
    let shop = Shop::new();
    let mark = mark(&shop);
    let inside = "open('/workspace/mark', 'w').write('ran')\n";
    let line = format!("import os; {}; exec({inside:?})\n", mark.trim());
    let both = format!("try:\n    {}\nexcept OSError:\n    {inside}", mark.trim());
    let files = json!({
        "evil.pth": line,
        "sitecustomize.py": both,
        "usercustomize.py": both,
        "conftest.py": both,
        "quiet.py": "x = 1\n",
        "quiet-1.0.data/scripts/pip": "#!python\nopen('mark', 'w')\n",
        "quiet-1.0.data/scripts/uv": "#!/bin/sh\ntouch mark\n",
        "quiet-1.0.dist-info/entry_points.txt": "[console_scripts]\nuv = quiet:x\n",
    });
    shop.wheel("quiet", json!({"files": files}));
    shop.wheel("second", json!({"files": {"second.py": ""}}));
    let session = shop.session().await;
    install(&session, "quiet").await.unwrap();
    // uv has looked at Python again, with a layer there.
    install(&session, "second").await.unwrap();
    let code = "import quiet, second, os; print(os.path.exists('/workspace/mark'))";
    assert_eq!(printed(&session, code).await, "False\n");
    good(&shop.session().await, "1").await;
    assert_unmarked(&shop);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_larger_than_a_layer_may_be_is_stopped_on_its_way() {
    let shop = Shop::new();
    // Half a megabyte that is half a gigabyte.
    shop.wheel(
        "bomb",
        json!({"zeros": {"bomb/zeros": 500}, "files": {"bomb/__init__.py": ""}}),
    );
    // Too large by a little: seen when it is whole.
    shop.wheel(
        "large",
        json!({"zeros": {"large/zeros": 9}, "files": {"large/__init__.py": ""}}),
    );
    let engine = shop
        .builder(bare_environment(), Packages::Any)
        .package_store(shop.store().layer_bytes(8 << 20))
        .build();
    let session = engine.session().await.unwrap();
    for name in ["bomb", "large"] {
        let error = install(&session, name).await.unwrap_err();
        assert!(
            matches!(error, Error::Packages(PackageError::TooLarge { .. })),
            "{error}"
        );
    }
    let all = files_beneath(&shop.path("data"));
    let largest = all.iter().map(|path| path.metadata().unwrap().len()).max();
    assert!(largest.unwrap() < 400 << 20, "{largest:?}");
    assert_eq!(
        std::fs::read_dir(shop.path("data/packages/staging"))
            .unwrap()
            .count(),
        0
    );
    good(&session, "1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wheel_that_lies_about_its_name_is_refused() {
    let shop = Shop::new();
    shop.wheel(
        "good_name",
        json!({"claims": "another-name", "files": {"good_name.py": ""}}),
    );
    let error = install(&shop.session().await, "good-name")
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Packages(PackageError::Uv { .. })),
        "{error}"
    );
}

/// K13: what one session has does not become another's, by writing or by looking.
#[tokio::test(flavor = "multi_thread")]
async fn k13_a_session_reads_its_own_layers_and_changes_none() {
    let shop = Shop::with_three();
    let engine = shop.engine();
    let (ours, other) = (
        engine.session().await.unwrap(),
        engine.session().await.unwrap(),
    );
    install(&ours, "alpha-one").await.unwrap();
    install(&other, "gamma-three").await.unwrap();
    let code = r"
import errno, os, alpha_one
place = os.path.dirname(alpha_one.__file__)
def attempt(function, *arguments):
    try:
        function(*arguments)
        return 'done'
    except OSError as error:
        return errno.errorcode[error.errno]
print({attempt(*way) for way in [
    (open, alpha_one.__file__, 'r+'), (open, place + '/new.py', 'w'), (os.unlink, alpha_one.__file__),
    (os.rename, place, place + '2'), (os.chmod, place, 0o777), (os.mkdir, '/opt/packages/new'),
    (os.chmod, '/opt/packages', 0o777), (os.symlink, '/tmp', '/opt/packages/' + 'a' * 64),
]} <= {'EROFS', 'EACCES', 'EPERM'})
print(attempt(os.listdir, '/opt/packages'), attempt(os.scandir, '/opt/packages'))
print(sorted(name for name in os.listdir(os.path.dirname(place)) if not name.endswith('info')))
print(attempt(open, '/opt/packages/' + 'a' * 64))
";
    let expected = "True\nEACCES EACCES\n['alpha_one', 'beta_two']\nENOENT\n";
    assert_eq!(printed(&ours, code).await, expected);
    // By contents, nobody knows the name: records are named by them.
    let records = std::fs::read_dir(shop.path("data/packages/records")).unwrap();
    for record in records {
        let name = record.unwrap().file_name().into_string().unwrap();
        let content = name.trim_end_matches(".json");
        let code = format!("import os; print(os.path.exists('/opt/packages/{content}'))");
        assert_eq!(printed(&ours, &code).await, "False\n");
    }
    good(&other, "import gamma_three").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_can_break_its_own_imports_only() {
    let shop = Shop::with_three();
    let session = shop.session().await;
    good(&session, "import sys; kept = sys.path; sys.path = None").await;
    install(&session, "alpha-one").await.unwrap();
    good(&session, "sys.path = kept").await;
    good(&session, "1").await;
    let other = shop.session().await;
    install(&other, "alpha-one").await.unwrap();
    good(&other, "import alpha_one").await;
}
