//! Making checkpoints of a session, and receiving those that its guest makes.

use crate::capabilities::Capability;
use crate::error::Error;
use crate::session::guest::Guest;
use crate::session::handle::SessionHandle;

/// Ensures a checkpoint of the current state, and returns its id.
pub(crate) async fn checkpoint_before(
    handle: &SessionHandle,
    guest: &mut Guest,
) -> Result<u64, Error> {
    absorb_checkpoints(handle, guest).await?;
    match guest.checkpoint_set.current() {
        Some(id) => Ok(id),
        None => keep(handle, guest, None).await,
    }
}

/// Makes a checkpoint of the current state, and returns its id.
pub(crate) async fn keep(
    handle: &SessionHandle,
    guest: &mut Guest,
    name: Option<String>,
) -> Result<u64, Error> {
    handle
        .backend
        .capabilities()
        .require(Capability::Checkpoints)?;
    guest.checkpoint_set.stand_before(&handle.interpreter());
    match guest.keep(name, &handle.meter).await {
        Err(error) if !matches!(error, Error::NotCheckpointed(_)) => Err(handle.fail(error)),
        result => result,
    }
}

/// Receives all checkpoints that the guest has reported or is about to report.
pub(crate) async fn absorb_checkpoints(
    handle: &SessionHandle,
    guest: &mut Guest,
) -> Result<(), Error> {
    let meter = &handle.meter;
    if let Err(error) = guest.absorb(meter) {
        return Err(handle.fail(error.into()));
    }
    // The session was restored just now.
    if guest.checkpoint_set.is_expecting() && !guest.wait_for_checkpoint(meter).await {
        return Err(handle.fail(Error::Unresponsive));
    }
    Ok(())
}
