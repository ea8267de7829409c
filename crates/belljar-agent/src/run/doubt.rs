//! Doubts: why an answer is not taken as proven.

use belljar_protocol::Language;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A reason why an answer is unverified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Doubt {
    /// No code was run, and no tool was called.
    NothingRun,
    /// The last code failed.
    LastCallFailed,
    /// No output shows a value of the answer.
    Unseen {
        /// The value.
        value: String,
    },
    /// A value was printed, but it is written in the code that printed it.
    WrittenInCode {
        /// The value.
        value: String,
    },
    /// A file that the answer names, or that the task requests, does not exist.
    FileMissing {
        /// Its name.
        file: String,
    },
    /// No code read the files of the task.
    DataNotRead,
    /// The task asks for a name, and the answer has none of the data.
    NameOmitted,
    /// The task asks for a number, and the answer has none.
    NumberOmitted,
    /// The task asks for a computation over many values, and the code did another one or none.
    NotComputed {
        /// The computation.
        computation: Computation,
    },
    /// The task names a column that the data does not have.
    ColumnMissing {
        /// The column.
        column: String,
    },
    /// The answer denies a column that the data has.
    ColumnExists {
        /// The column.
        column: String,
    },
    /// The task names a value or a column of the data, and neither the code nor the result has it.
    Ignored {
        /// The value or the column.
        term: String,
    },
    /// The data has another unit than the task asks for, and no code converts it.
    NotConverted {
        /// The unit of the data.
        data_unit: String,
        /// The unit in the task.
        task_unit: String,
    },
}

/// A computation over many values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Computation {
    /// A sum.
    Total,
    /// A mean.
    Average,
    /// A median.
    Median,
    /// A count of different values.
    Distinct,
    /// A maximum.
    Largest,
    /// A minimum.
    Smallest,
}

impl Doubt {
    /// It in words.
    pub fn text(&self, language: Language) -> String {
        let texts = language.prompts();
        match self {
            Self::NothingRun => texts.doubt_nothing_run.to_owned(),
            Self::LastCallFailed => texts.doubt_last_call_failed.to_owned(),
            Self::Unseen { value } => texts.doubt_unseen(value),
            Self::WrittenInCode { value } => texts.doubt_written_in_code(value),
            Self::FileMissing { file } => texts.doubt_file_missing(file),
            Self::DataNotRead => texts.doubt_data_not_read.to_owned(),
            Self::NameOmitted => texts.doubt_name_omitted.to_owned(),
            Self::NumberOmitted => texts.doubt_number_omitted.to_owned(),
            Self::NotComputed { computation } => match computation {
                Computation::Total => texts.doubt_no_total,
                Computation::Average => texts.doubt_no_average,
                Computation::Median => texts.doubt_no_median,
                Computation::Distinct => texts.doubt_not_distinct,
                Computation::Largest => texts.doubt_not_largest,
                Computation::Smallest => texts.doubt_not_smallest,
            }
            .to_owned(),
            Self::ColumnMissing { column } => texts.doubt_column_missing(column),
            Self::ColumnExists { column } => texts.doubt_column_exists(column),
            Self::Ignored { term } => texts.doubt_ignored(term),
            Self::NotConverted {
                data_unit,
                task_unit,
            } => texts.doubt_not_converted(data_unit, task_unit),
        }
    }
}
