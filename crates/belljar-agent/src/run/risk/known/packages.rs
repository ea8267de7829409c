//! Modules and packages that are harmless.

use super::first_of;

/// Modules of the standard library of which nothing is a capability; sorted.
#[rustfmt::skip]
const STANDARD: &[&str] = &[
    "__future__", "abc", "argparse", "array", "ast", "base64", "binascii", "bisect", "calendar",
    "cmath", "collections", "colorsys", "configparser", "contextlib", "contextvars", "copy",
    "csv", "dataclasses", "datetime", "decimal", "difflib", "dis", "email", "enum", "errno",
    "fnmatch", "fractions", "functools", "genericpath", "getopt", "getpass", "glob", "graphlib",
    "hashlib", "heapq", "hmac", "html", "itertools", "json", "keyword", "locale", "math",
    "mimetypes", "numbers", "platform", "posixpath", "pprint", "queue", "quopri", "random", "re",
    "reprlib", "resource", "sched", "secrets", "statistics", "string", "stringprep", "struct",
    "textwrap", "this", "time", "token", "tokenize", "tomllib", "tools", "traceback",
    "tracemalloc", "typing", "unicodedata", "uuid", "warnings", "weakref", "xml", "zlib",
    "zoneinfo",
];

/// Packages for data, and modules that are as harmless; sorted.
#[rustfmt::skip]
const DATA: &[&str] = &[
    "Bio", "IPython", "Levenshtein", "PIL", "PyPDF2", "altair", "annoy", "arch", "arviz", "ase",
    "astropy", "attr", "attrs", "autograd", "bokeh", "bottleneck", "bs4", "calendar", "calmap",
    "cartopy", "catboost", "category_encoders", "chardet", "charset_normalizer", "cmath",
    "collections", "colorama", "contextily", "csv", "cv2", "cvxopt", "cvxpy", "dask", "datetime",
    "dateutil", "deap", "decimal", "decorator", "descartes", "docx", "duckdb", "dython", "emcee",
    "emoji", "empyrical", "ephem", "et_xmlfile", "fastparquet", "feather", "fiona", "flair",
    "folium", "fpdf", "fractions", "fuzzywuzzy", "gensim", "geopandas", "geopy", "ggplot",
    "gmpy2", "great_tables", "h5py", "hdbscan", "holidays", "holoviews", "html5lib", "humanize",
    "hvplot", "igraph", "imageio", "imblearn", "itertools", "jax", "jellyfish", "jinja2",
    "joblib", "json", "jsonschema", "keras", "kneed", "langdetect", "lifelines", "lightgbm",
    "linearmodels", "lmfit", "lxml", "markdown", "math", "matplotlib", "missingno", "mlxtend",
    "more_itertools", "mpl_toolkits", "mpmath", "msgpack", "nbformat", "netCDF4", "networkx",
    "nltk", "numba", "numexpr", "numpy", "openpyxl", "operator", "optuna", "orjson", "ortools",
    "pandas", "pandera", "pdfplumber", "phonenumbers", "pingouin", "pint", "plotly", "plotnine",
    "pmdarima", "polars", "pptx", "prettytable", "prophet", "pulp", "pyarrow", "pycountry",
    "pydantic", "pyfaidx", "pylab", "pypdf", "pyproj", "pytz", "pywt", "random", "rapidfuzz",
    "rasterio", "rdkit", "re", "regex", "reportlab", "rich", "scipy", "seaborn", "shap",
    "shapely", "simplejson", "simpy", "skimage", "sklearn", "sortedcontainers", "spacy",
    "squarify", "statistics", "statsmodels", "string", "sympy", "tables", "tabulate",
    "tensorflow", "textblob", "textstat", "time", "toml", "tomli", "toolz", "torch",
    "torchvision", "tqdm", "transformers", "tsfresh", "ujson", "umap", "uncertainties",
    "unidecode", "vaderSentiment", "venn", "wordcloud", "xarray", "xgboost", "xlrd",
    "xlsxwriter", "xlwt", "yaml", "yellowbrick", "zarr", "zoneinfo", "zstandard",
];

/// Modules of which nothing is a capability, as far as [`super::members`] does not say otherwise.
pub(super) fn is_harmless(module: &str) -> bool {
    STANDARD.binary_search(&first_of(module)).is_ok() || is_data(module)
}

/// Packages for data: taking any name of one is no reason to ask, as far as [`super::members`] does
/// not say otherwise.
pub(in crate::run::risk) fn is_data(module: &str) -> bool {
    DATA.binary_search(&first_of(module)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_sorted() {
        assert!(STANDARD.is_sorted() && DATA.is_sorted());
    }
}
