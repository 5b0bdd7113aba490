//! Errors as exceptions: what is wrong in plaudit's words, and what to do about it.

use std::any::Any;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};

use plaudit::failure::Failure;
use plaudit::program::FailureText;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// The module that has the exceptions.
const MODULE: &str = "plaudit.errors";

/// A library refused or failed: `plaudit.Error`, with the hint that the command would show.
pub(crate) fn failed(error: &(dyn Error + 'static)) -> PyErr {
    let FailureText { message, hint } = FailureText::of(&Failure::caused_by(error));
    failure(message, hint)
}

/// Something failed: `plaudit.Error`.
pub(crate) fn failure(message: impl Into<String>, hint: Option<String>) -> PyErr {
    exception("Error", message.into(), hint)
}

/// Something was used wrongly, or what was passed cannot be taken: `plaudit.InputError`, which is a
/// `ValueError`.
pub(crate) fn input(message: impl Into<String>, hint: impl Into<String>) -> PyErr {
    exception("InputError", message.into(), Some(hint.into()))
}

fn exception(name: &'static str, message: String, hint: Option<String>) -> PyErr {
    static ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static INPUT_ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let cell = if name == "Error" { &ERROR } else { &INPUT_ERROR };
    Python::attach(|py| match cell.import(py, MODULE, name) {
        Ok(class) => PyErr::from_type(class.clone(), (message, hint)),
        Err(error) => error,
    })
}

/// A panic becomes an exception: the interpreter goes on, and other work in it is not lost.
pub(crate) fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(of_panic(&*panic)))
}

/// What a panic said, as an exception.
pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    let text = text.unwrap_or_else(|| "it did not say why".into());
    failure(format!("plaudit broke, which is a mistake in plaudit: {text}"), Some("please report it".into()))
}
