//! Columns to be written.

use parquet::data_type::ByteArray;

/// A top-level column. Each row has the same number of values.
pub(crate) struct Column {
    pub(crate) name: String,
    /// How many lists are around each value.
    pub(crate) depth: usize,
    pub(crate) values: Values,
}

/// What is in a column, row after row.
pub(crate) enum Values {
    Bool(Vec<bool>),
    U8(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Text(Vec<ByteArray>),
    /// Encoded images, and the file names they would have.
    Images(Vec<ByteArray>, Vec<ByteArray>),
}

impl Column {
    /// One value a row.
    pub(crate) fn flat(name: impl Into<String>, values: Values) -> Self {
        Self { name: name.into(), depth: 0, values }
    }

    /// A list of values a row.
    pub(crate) fn list(name: impl Into<String>, depth: usize, values: Values) -> Self {
        Self { name: name.into(), depth, values }
    }

    /// A line of parquet's schema language.
    pub(super) fn schema(&self) -> String {
        if let Values::Images(..) = self.values {
            let leaves = "optional binary bytes; optional binary path (STRING);";
            return format!("optional group {} {{ {leaves} }}", self.name);
        }
        let (kind, meaning) = self.values.kind();
        let leaf = |name: &str| format!("optional {kind} {name} {meaning};");
        if self.depth == 0 {
            return leaf(&self.name);
        }
        let within = (1..self.depth).fold(leaf("element"), |inner, _| list("element", &inner));
        list(&self.name, &within)
    }
}

fn list(name: &str, element: &str) -> String {
    format!("optional group {name} (LIST) {{ repeated group list {{ {element} }} }}")
}

impl Values {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Bool(values) => values.len(),
            Self::U8(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::Text(values) | Self::Images(values, _) => values.len(),
        }
    }

    fn kind(&self) -> (&'static str, &'static str) {
        match self {
            Self::Bool(_) => ("boolean", ""),
            Self::U8(_) => ("int32", "(INTEGER(8,false))"),
            Self::I64(_) => ("int64", ""),
            Self::F32(_) => ("float", ""),
            Self::F64(_) => ("double", ""),
            Self::Text(_) | Self::Images(..) => ("binary", "(STRING)"),
        }
    }
}
