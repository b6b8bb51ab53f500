//! Enums whose variants have fixed names in documents and output: [`string_enum`].

/// Defines such an enum, with conversions from and to the names.
macro_rules! string_enum {
    ($(#[$doc:meta])+ $name:ident { $($(#[$variant_doc:meta])+ $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_doc])+ $variant,)+ }

        impl $name {
            /// The names of all variants, in the order in which the documentation lists them.
            pub const WORDS: &'static [&'static str] = &[$($word,)+];

            /// Returns the name of the variant.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// Returns the variant with this name.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use string_enum;
