use belljar_server::simulation::place;

use crate::clock::SECOND;
use crate::figures::{Figures, percentile};
use crate::fleet::{Fault, Place, Plan};
use crate::scenarios::{mixed_plan, most_room, plan, simulate};

/// Less of it: twenty nodes for half a minute.
fn small(seed: u64, fault: Fault) -> Plan {
    Plan {
        fault_at: 5 * SECOND,
        end: 35 * SECOND,
        ..plan(20, seed, fault)
    }
}

fn figures(plan: Plan) -> Figures {
    // Checks what nodes hold at the end, and that each create has ended once.
    simulate(plan).figures
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let run = |seed| figures(small(seed, Fault::Deaths(2)));
    let first = run(1);
    assert_eq!(first, run(1));
    assert_ne!(first, run(2));
}

/// A tenth of the nodes dies: their sessions are there again, and their runs go to others.
#[test]
fn a_fleet_survives_the_loss_of_a_tenth() {
    let figures = figures(small(1, Fault::Deaths(2)));
    assert!(figures.before.failed_share() <= 0.0);
    assert!(figures.herd.count() > 1000, "{}", figures.herd.count());
    assert!(figures.herd.failed_share() < 0.01);
    assert!(figures.after.failed_share() < 0.01);
    assert!(figures.runs_lost > 0);
    assert_eq!(figures.takeovers.len(), figures.runs_lost);
    assert_eq!(figures.lives_ended, 0);
    // The aim is the lease and five seconds.
    let last = percentile(&figures.takeovers, 1.0).unwrap();
    assert!((5 * SECOND..10 * SECOND).contains(&last), "{last}");
}

/// Nodes that are full choose among those with room. If each chooses the one with most, that one is flooded.
#[test]
fn full_nodes_do_not_flood_the_emptiest() {
    let of = |place: Place| {
        let plan = Plan {
            end: 25 * SECOND,
            ..mixed_plan(50, 1, 5, place)
        };
        figures(plan)
    };
    let refused = (of(most_room).passed_on_refused, of(place).passed_on_refused);
    assert!(refused.0 > 100 && refused.1 < refused.0 / 4, "{refused:?}");
}

/// Nobody is declared dead, since nobody could beat. Some clients give up: retries take 20 to 30 seconds.
#[test]
fn no_life_ends_while_the_database_is_gone() {
    let figures = figures(small(1, Fault::DatabaseGone(30 * SECOND)));
    assert_eq!((figures.lives_ended, figures.takeovers.len()), (0, 0));
    assert!(figures.after.failed_share() > 0.0);
}

/// A tenant that asks for more than it may have is refused, and others get what they ask for.
#[test]
fn a_hot_tenant_is_refused_alone() {
    let figures = figures(small(1, Fault::HotTenant(1000.0)));
    assert!(figures.hot.failed_share() > 0.1);
    assert!(figures.after.failed_share() <= 0.0);
}
