//! One declaration per block of the configuration, from which three things follow: the type **as written**
//! (every key optional, unknown keys refused), the type **as resolved** (defaults filled in), and the table
//! in docs/config.md. So a key, its type, its default, its range and its meaning can never drift apart.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use indexmap::IndexMap;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, DeserializeOwned, Deserializer, IntoDeserializer, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::range::Range;

/// A value of the configuration: how it is written and what it becomes.
pub trait Setting: Sized {
    /// The type as written.
    type Written: DeserializeOwned + fmt::Debug + Clone + PartialEq;

    /// What the written value means.
    fn resolve(written: Self::Written) -> Self;

    /// Whether the written value says that nothing is set where something need not be.
    fn is_unset(_written: &Self::Written) -> bool {
        false
    }

    /// How documentation speaks of it.
    fn kind() -> Kind;

    /// Writes it down again. A type of a library need not be one that serde knows.
    fn show<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
}

/// What [`Setting::show`] writes, for containers of settings.
struct Shown<'a, T>(&'a T);

impl<T: Setting> Serialize for Shown<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.show(serializer)
    }
}

/// [`Setting::show`] as fields of blocks are written.
pub fn show<T: Setting, S: Serializer>(setting: &T, serializer: S) -> Result<S::Ok, S::Error> {
    setting.show(serializer)
}

/// What documentation says of a type.
#[derive(Debug, Clone)]
pub enum Kind {
    /// A plain value: `number`, `text`, …
    Plain(String),
    /// A choice among words, each with its meaning.
    Choice(Vec<(&'static str, String)>),
    /// A block of its own.
    Block(BlockDoc),
    /// A list of such things.
    List(Box<Kind>),
    /// Such things by names of the user's choice.
    Names(Box<Kind>),
}

/// The documentation of a block.
#[derive(Debug, Clone)]
pub struct BlockDoc {
    /// Name of the resolved type, which tells equal blocks apart from equal-looking ones.
    pub name: &'static str,
    /// What the block is for.
    pub about: String,
    /// Its keys, in order.
    pub fields: Vec<FieldDoc>,
}

/// The documentation of a key.
#[derive(Debug, Clone)]
pub struct FieldDoc {
    /// The key.
    pub name: &'static str,
    /// Its meaning.
    pub about: String,
    /// Its type.
    pub kind: Kind,
    /// The numbers it takes, where not all do.
    pub range: Option<Range>,
}

/// Of a [`Setting`] that is written as it is resolved and shown: all but its kind.
macro_rules! as_written {
    () => {
        type Written = Self;
        fn resolve(written: Self) -> Self {
            written
        }
        fn show<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serde::Serialize::serialize(self, serializer)
        }
    };
}

/// Declares what is written as it is: `Type: "what it is, in words"`.
macro_rules! plain {
    ($($type:ty: $name:literal),* $(,)?) => {$(
        impl $crate::config::block::Setting for $type {
            $crate::config::block::as_written!();
            fn kind() -> $crate::config::block::Kind { $crate::config::block::Kind::Plain($name.into()) }
        }
    )*};
}
pub(crate) use {as_written, plain};

plain! {
    bool: "true or false",
    u32: "whole number",
    u64: "whole number",
    i64: "whole number, may be negative",
    usize: "whole number",
    f32: "number",
    f64: "number",
    serde_json::Value: "anything",
    FreeForm: "names and values, handed on as they are",
}

impl Setting for String {
    as_written!();
    /// RLinf's files write `model_path: ""` for none.
    fn is_unset(written: &Self) -> bool {
        written.is_empty()
    }
    fn kind() -> Kind {
        Kind::Plain("text".into())
    }
}

impl<T: Setting> Setting for Option<T> {
    type Written = T::Written;
    fn resolve(written: Self::Written) -> Self {
        (!T::is_unset(&written)).then(|| T::resolve(written))
    }
    fn kind() -> Kind {
        T::kind()
    }
    fn show<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(given) => serializer.serialize_some(&Shown(given)),
            None => serializer.serialize_none(),
        }
    }
}

impl<T: Setting> Setting for Vec<T> {
    type Written = Vec<T::Written>;
    fn resolve(written: Self::Written) -> Self {
        written.into_iter().map(T::resolve).collect()
    }
    fn kind() -> Kind {
        Kind::List(Box::new(T::kind()))
    }
    fn show<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Shown))
    }
}

impl<T: Setting, const N: usize> Setting for [T; N]
where
    [T::Written; N]: DeserializeOwned,
{
    type Written = [T::Written; N];
    fn resolve(written: Self::Written) -> Self {
        written.map(T::resolve)
    }
    fn kind() -> Kind {
        Kind::Plain(format!("list of {N} numbers"))
    }
    fn show<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Shown))
    }
}

impl<T: Setting> Setting for IndexMap<String, T> {
    type Written = IndexMap<String, T::Written>;
    fn resolve(written: Self::Written) -> Self {
        written.into_iter().map(|(name, value)| (name, T::resolve(value))).collect()
    }
    fn kind() -> Kind {
        Kind::Names(Box::new(T::kind()))
    }
    fn show<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(name, value)| (name, Shown(value))))
    }
}

/// Declares a block: `Name as NameWritten { /// meaning \n #[range(SHARE)] key: Type = default, … }`. Keys whose numbers are
/// not all possible have a range.
macro_rules! block {
    (
        $(#[doc = $about:literal])*
        $name:ident as $written:ident {
            $( $(#[doc = $doc:literal])+ $(#[range($range:expr)])? $field:ident : $kind:ty = $default:expr ),* $(,)?
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        pub struct $name {
            $( $(#[doc = $doc])+ #[serde(serialize_with = "crate::config::block::show")] pub $field: $kind, )*
        }

        #[doc = concat!("[`", stringify!($name), "`] as a user writes it.")]
        #[derive(Debug, Clone, Default, PartialEq, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $written {
            $( $(#[doc = $doc])+ pub $field: Option<<$kind as $crate::config::block::Setting>::Written>, )*
        }

        impl $crate::config::block::Setting for $name {
            type Written = $written;
            fn resolve(written: $written) -> Self {
                Self { $( $field: match written.$field {
                    Some(given) => <$kind as $crate::config::block::Setting>::resolve(given),
                    None => $default,
                }, )* }
            }
            fn kind() -> $crate::config::block::Kind {
                use $crate::config::block::{BlockDoc, FieldDoc, Kind, paragraph};
                Kind::Block(BlockDoc {
                    name: stringify!($name),
                    about: paragraph(&[$($about),*]),
                    fields: vec![ $( FieldDoc {
                        name: stringify!($field),
                        about: paragraph(&[$($doc),+]),
                        kind: <$kind as $crate::config::block::Setting>::kind(),
                        range: $crate::config::block::optional!($($range)?),
                    }, )* ],
                })
            }
            fn show<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(self, serializer)
            }
        }

        impl Default for $name {
            fn default() -> Self {
                <Self as $crate::config::block::Setting>::resolve($written::default())
            }
        }
    };
}
pub(crate) use block;

/// What was written, if anything was.
macro_rules! optional {
    () => {
        None
    };
    ($given:expr) => {
        Some($given)
    };
}
pub(crate) use optional;

/// A choice: which words mean what.
pub trait Choice: Sized + Copy {
    /// The words users write.
    const WORDS: &'static [&'static str];

    /// The word users write.
    fn word(self) -> &'static str;

    /// What a word means, or an older one.
    fn from_word(word: &str) -> Option<Self>;
}

/// The values of a flag: words of a choice, with hyphens where the config has underscores.
pub fn flag_words<T: Choice + Send + Sync + 'static>(
    words: &'static [&'static str],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words.iter().copied()).try_map(|word| {
        let found = T::from_word(&word).or_else(|| T::from_word(&word.replace('-', "_")));
        found.ok_or("no such word")
    })
}

/// A [`Choice`] as written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WrittenChoice<T>(pub T);

/// A number counts as its digits, since people write `precision: 32`.
impl<'de, T: Choice> Deserialize<'de> for WrittenChoice<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Word<T>(PhantomData<T>);

        impl<T: Choice> Visitor<'_> for Word<T> {
            type Value = T;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                let words: Vec<_> = T::WORDS.iter().map(|word| format!("`{word}`")).collect();
                write!(f, "{}", words.join(" or "))
            }
            fn visit_str<E: de::Error>(self, word: &str) -> Result<T, E> {
                T::from_word(word).ok_or_else(|| E::unknown_variant(word, T::WORDS))
            }
            fn visit_bool<E: de::Error>(self, truth: bool) -> Result<T, E> {
                let word = if truth { "true" } else { "false" };
                T::from_word(word).ok_or_else(|| E::invalid_type(de::Unexpected::Bool(truth), &self))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_i128<E: de::Error>(self, number: i128) -> Result<T, E> {
                self.visit_str(&number.to_string())
            }
        }

        deserializer.deserialize_any(Word(PhantomData)).map(Self)
    }
}

/// Declares a choice: `Name { /// meaning \n Variant = "word" | "older word", … }`. `Name = library::Type { … }` gives words to
/// the type of a library, which is then declared there alone: the compiler asks for a word when it gets a variant more.
macro_rules! choice {
    (
        $(#[doc = $about:literal])*
        $name:ident = $library:ty { $($words:tt)* }
    ) => {
        $(#[doc = $about])*
        pub type $name = $library;
        $crate::config::block::words! { $library, $crate::config::block::WrittenChoice<$library>, |written| written.0, $($words)* }
    };
    (
        $(#[doc = $about:literal])*
        $name:ident { $( $(#[doc = $doc:literal])+ $variant:ident = $word:literal $(| $other:literal)* ),* $(,)? }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $( $(#[doc = $doc])+ $variant, )* }

        $crate::config::block::words! {
            $name, $name, |written| written, $( $(#[doc = $doc])+ $variant = $word $(| $other)* ),*
        }

        impl $name {
            /// The word users write.
            pub fn word(self) -> &'static str {
                $crate::config::block::Choice::word(self)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.word())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::config::block::WrittenChoice::deserialize(deserializer).map(|written| written.0)
            }
        }
    };
}
pub(crate) use choice;

/// The words of a choice, and how it is written.
macro_rules! words {
    (
        $name:ty, $written:ty, |$from:ident| $resolved:expr,
        $( $(#[doc = $doc:literal])+ $variant:ident = $word:literal $(| $other:literal)* ),* $(,)?
    ) => {
        impl $crate::config::block::Choice for $name {
            const WORDS: &'static [&'static str] = &[$($word),*];

            fn word(self) -> &'static str {
                match self { $( Self::$variant => $word, )* }
            }

            fn from_word(word: &str) -> Option<Self> {
                match word { $( $word $(| $other)* => Some(Self::$variant), )* _ => None }
            }
        }

        impl $crate::config::block::Setting for $name {
            type Written = $written;
            fn resolve($from: Self::Written) -> Self { $resolved }
            fn kind() -> $crate::config::block::Kind {
                use $crate::config::block::{Kind, paragraph};
                Kind::Choice(vec![ $( ($word, paragraph(&[$($doc),+])), )* ])
            }
            fn show<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str($crate::config::block::Choice::word(*self))
            }
        }
    };
}
pub(crate) use words;

/// Joins the lines of a doc comment into one paragraph.
pub fn paragraph(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Something a person still has to fill in: RLinf's files say `TARGET_EE_POSE` or `ROBOT_IP` there.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Fill<T> {
    /// Filled in.
    Given(T),
    /// Still the capital letters it was shipped with.
    Blank(String),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Fill<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Filled<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Filled<T> {
            type Value = Fill<T>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a list of numbers")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                let blank = text.starts_with(char::is_uppercase) && text == text.to_uppercase();
                if blank {
                    Ok(Fill::Blank(text.into()))
                } else {
                    Err(E::invalid_value(Unexpected::Str(text), &self))
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
                T::deserialize(SeqAccessDeserializer::new(items)).map(Fill::Given)
            }
        }

        deserializer.deserialize_any(Filled(PhantomData))
    }
}

impl<T> Setting for Fill<T>
where
    T: Setting<Written = T> + DeserializeOwned + Serialize + fmt::Debug + Clone + PartialEq,
{
    as_written!();
    fn kind() -> Kind {
        T::kind()
    }
}

/// One word or text, or a list of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum OneOrMore<T> {
    /// One.
    One(T),
    /// Several.
    More(Vec<T>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = OneOrMore<T>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("text or a list of texts")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                T::deserialize(text.into_deserializer()).map(OneOrMore::One)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(items)).map(OneOrMore::More)
            }
        }

        deserializer.deserialize_any(Either(PhantomData))
    }
}

impl<T> Setting for OneOrMore<T>
where
    T: Setting<Written = T> + DeserializeOwned + Serialize + fmt::Debug + Clone + PartialEq,
{
    as_written!();
    fn is_unset(written: &Self) -> bool {
        matches!(written, Self::One(one) if T::is_unset(one))
    }
    fn kind() -> Kind {
        match T::kind() {
            Kind::Plain(name) => Kind::Plain(format!("{name}, or a list")),
            other => other,
        }
    }
}

/// Free-form settings that are handed on as they are, such as keyword arguments of a Python simulator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FreeForm(pub BTreeMap<String, serde_json::Value>);

#[cfg(test)]
#[allow(unreachable_pub)] // the macros declare public types
mod tests {
    use super::*;

    choice! {
        /// A test choice.
        Colour {
            /// Like blood.
            Red = "red" | "rot",
            /// A number.
            Many = "32",
        }
    }

    block! {
        /// A test block.
        Paint as PaintWritten {
            /// Which one.
            colour: Colour = Colour::Red,
            /// How much.
            litres: f64 = 1.5,
            /// Who asked.
            by: Option<String> = None,
        }
    }

    #[test]
    fn what_is_not_written_takes_its_default() {
        let written: PaintWritten = serde_json::from_str(r#"{"litres": 2, "by": null}"#).unwrap();
        let paint = Paint::resolve(written);
        assert_eq!(paint, Paint { colour: Colour::Red, litres: 2.0, by: None });
        assert_eq!(serde_json::to_string(&paint).unwrap(), r#"{"colour":"red","litres":2.0,"by":null}"#);
    }

    #[test]
    fn an_empty_text_that_need_not_be_there_is_none() {
        let written: PaintWritten = serde_json::from_str(r#"{"by": ""}"#).unwrap();
        assert_eq!(Paint::resolve(written).by, None);
    }

    #[test]
    fn unknown_keys_and_words_are_refused_and_older_words_are_not() {
        assert!(serde_json::from_str::<PaintWritten>(r#"{"litre": 2}"#).is_err());
        assert!(serde_json::from_str::<Colour>(r#""green""#).is_err());
        assert_eq!(serde_json::from_str::<Colour>(r#""rot""#).unwrap(), Colour::Red);
        assert_eq!(serde_json::from_str::<Colour>("32").unwrap(), Colour::Many);
    }

    #[test]
    fn documentation_comes_from_the_declaration() {
        let Kind::Block(doc) = Paint::kind() else { panic!("a block") };
        assert_eq!(doc.about, "A test block.");
        assert_eq!(doc.fields[1].about, "How much.");
        assert!(
            matches!(&doc.fields[0].kind, Kind::Choice(words) if words[0] == ("red", "Like blood.".into()))
        );
    }
}
