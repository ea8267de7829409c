//! The package of a module that was not found.

use belljar_protocol::ExceptionInfo;

use super::Packages;
use super::requirement::normalise;

/// Modules whose name differs from that of their package, and common ones with the same name. An
/// unknown name is not suggested, since anybody can register it.
const KNOWN: [(&str, &str); 62] = [
    ("attr", "attrs"),
    ("bs4", "beautifulsoup4"),
    ("cv2", "opencv-python-headless"),
    ("dateutil", "python-dateutil"),
    ("docx", "python-docx"),
    ("dotenv", "python-dotenv"),
    ("fitz", "pymupdf"),
    ("jwt", "pyjwt"),
    ("PIL", "pillow"),
    ("pptx", "python-pptx"),
    ("skimage", "scikit-image"),
    ("sklearn", "scikit-learn"),
    ("yaml", "pyyaml"),
    ("zmq", "pyzmq"),
    ("altair", "altair"),
    ("arrow", "arrow"),
    ("bokeh", "bokeh"),
    ("catboost", "catboost"),
    ("cloudpickle", "cloudpickle"),
    ("cryptography", "cryptography"),
    ("dask", "dask"),
    ("duckdb", "duckdb"),
    ("faker", "faker"),
    ("fastparquet", "fastparquet"),
    ("folium", "folium"),
    ("geopandas", "geopandas"),
    ("httpx", "httpx"),
    ("humanize", "humanize"),
    ("imageio", "imageio"),
    ("jieba", "jieba"),
    ("jinja2", "jinja2"),
    ("joblib", "joblib"),
    ("lightgbm", "lightgbm"),
    ("lxml", "lxml"),
    ("markdown", "markdown"),
    ("matplotlib", "matplotlib"),
    ("networkx", "networkx"),
    ("nltk", "nltk"),
    ("numba", "numba"),
    ("numpy", "numpy"),
    ("openpyxl", "openpyxl"),
    ("pandas", "pandas"),
    ("plotly", "plotly"),
    ("polars", "polars"),
    ("pyarrow", "pyarrow"),
    ("pydantic", "pydantic"),
    ("pypdf", "pypdf"),
    ("pytz", "pytz"),
    ("requests", "requests"),
    ("rich", "rich"),
    ("scipy", "scipy"),
    ("seaborn", "seaborn"),
    ("shapely", "shapely"),
    ("sqlalchemy", "sqlalchemy"),
    ("statsmodels", "statsmodels"),
    ("sympy", "sympy"),
    ("tabulate", "tabulate"),
    ("torch", "torch"),
    ("tqdm", "tqdm"),
    ("xarray", "xarray"),
    ("xgboost", "xgboost"),
    ("xlsxwriter", "xlsxwriter"),
];

/// The package of a missing module, if it is known.
pub(crate) fn suggestion(exception: &ExceptionInfo, policy: &Packages) -> Option<String> {
    if exception.type_name != "ModuleNotFoundError" {
        return None;
    }
    // The text comes from the guest: nothing of it is passed on but a name of the lists.
    let missing = exception.value.strip_prefix("No module named '")?;
    let module = missing.split(['.', '\'']).next()?;
    let known = KNOWN.iter().find(|(name, _)| *name == module);
    match (known, policy) {
        (Some((_, package)), _) => Some((*package).to_owned()),
        (None, Packages::Allow(list)) => list.get(&normalise(module)).cloned(),
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suggest(type_name: &str, value: &str, policy: &Packages) -> Option<String> {
        let exception = ExceptionInfo {
            type_name: type_name.into(),
            name: type_name.into(),
            value: value.into(),
            repr: String::new(),
            traceback: String::new(),
            line: None,
        };
        suggestion(&exception, policy)
    }

    #[test]
    fn known_modules_are_suggested() {
        let missing = "ModuleNotFoundError";
        let cv2 = "No module named 'cv2'";
        let any = Packages::Any;
        assert_eq!(
            suggest(missing, cv2, &any).unwrap(),
            "opencv-python-headless"
        );
        assert_eq!(
            suggest(missing, "No module named 'PIL.Image'", &any).unwrap(),
            "pillow"
        );
        assert_eq!(suggest("ImportError", cv2, &any), None);
        for unknown in [
            "No module named 'nothing_known'",
            "No module named 'x; rm'",
            "",
        ] {
            assert_eq!(suggest(missing, unknown, &any), None);
        }
        let own = Packages::allow(["Our_Own.Package"]);
        let value = "No module named 'our_own_package'";
        assert_eq!(suggest(missing, value, &own).unwrap(), "our-own-package");
    }
}
