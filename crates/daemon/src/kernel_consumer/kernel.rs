// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel as all sessions see it: where its tracing is, whose instances are ours, and what its events look like.

use std::path::Path;
use std::sync::Arc;

use piste_kernel::catalog::Catalog;
use piste_kernel::layout::Layout;
use piste_kernel::owner::Owner;
use piste_kernel::page::PageLayout;
use piste_kernel::tracefs::Tracefs;

pub(super) struct Kernel {
    pub(super) tracefs: Tracefs,
    pub(super) owner: Arc<Owner>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) layout: Arc<Layout>,
    pub(super) pages: PageLayout,
}

impl Kernel {
    /// Opens what there is, as the owner that the run folder names.
    ///
    /// # Errors
    /// Why the kernel cannot be traced, as a sentence.
    pub(super) fn open(run_folder: &Path) -> Result<Kernel, String> {
        let tracefs = Tracefs::find().map_err(|lack| lack.to_string())?;
        let owner = Owner::claim(run_folder).map_err(|error| error.to_string())?;
        let pages = PageLayout::read(&tracefs).map_err(|error| error.to_string())?;
        Kernel::now(tracefs, Arc::new(owner), pages)
    }

    /// The same kernel with the events that it has now: modules and other tools' probes bring events, and take them away. Takes some
    /// milliseconds.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) fn again(&self) -> Result<Kernel, String> {
        let kernel = Kernel::now(self.tracefs.clone(), self.owner.clone(), self.pages)?;
        kernel.catalog.learn_ids();
        Ok(kernel)
    }

    fn now(tracefs: Tracefs, owner: Arc<Owner>, pages: PageLayout) -> Result<Kernel, String> {
        let catalog = Catalog::read(&tracefs).map_err(|error| error.to_string())?;
        let layout = Layout::new(catalog.names());
        Ok(Kernel {
            tracefs,
            owner,
            catalog: Arc::new(catalog),
            layout: Arc::new(layout),
            pages,
        })
    }
}
