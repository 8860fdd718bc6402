//! Declares a structure once and gets from it the type and a description that can be compared
//! with the C header.

/// A mirrored structure.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The type in C.
    pub c_type: &'static str,
    /// Its size, bytes.
    pub size: usize,
    /// All fields, in order.
    pub fields: &'static [Field],
}

/// A field of a mirrored structure.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its name, the same in C.
    pub name: &'static str,
    /// Bytes from the start of the structure.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

/// Deriving `IntoBytes` makes implicit padding a compile error, so equal offsets of all named fields
/// mean equal structures.
macro_rules! mirror {
    ($(
        $(#[$doc:meta])*
        $name:ident = $c_type:literal, $size:literal bytes {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout, zerocopy::Immutable)]
        #[repr(C)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $name {
            /// For the comparison with the C header.
            pub const LAYOUT: $crate::Layout = $crate::Layout {
                c_type: $c_type,
                size: core::mem::size_of::<Self>(),
                fields: &[$($crate::Field {
                    name: stringify!($field),
                    offset: core::mem::offset_of!(Self, $field),
                    size: core::mem::size_of::<$type>(),
                },)*],
            };
        }

        const _: () = assert!(core::mem::size_of::<$name>() == $size);

        impl Default for $name {
            /// All zero, as fresh memory of the arena.
            fn default() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }
    )*};
}
