//! The word that names the node of a simulation to which a G belongs. Without the feature `sim` it takes no
//! room.

#[cfg(not(feature = "sim"))]
pub(crate) use absent::NodeWord;
#[cfg(feature = "sim")]
pub(crate) use std::sync::atomic::AtomicU32 as NodeWord;

#[cfg(not(feature = "sim"))]
mod absent {
    use std::sync::atomic::Ordering;

    /// There are no nodes.
    pub(crate) struct NodeWord;

    impl NodeWord {
        pub(crate) fn new(_node: u32) -> NodeWord {
            NodeWord
        }

        pub(crate) fn load(&self, _order: Ordering) -> u32 {
            0
        }

        pub(crate) fn store(&self, _node: u32, _order: Ordering) {}
    }
}
