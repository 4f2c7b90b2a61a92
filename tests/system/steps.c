/* Ends or stops this process at a chosen atomic operation: the seam of atomics.h, built with -DRTMW_EXPLORE. */
#include <signal.h>
#include <unistd.h>

void rtmw_explore_step(const volatile void *address);

long rtmw_steps;      /* taken since it was set to 0 */
long rtmw_last_step;  /* 0: none */
int rtmw_last_signal; /* what comes before this step */

void rtmw_explore_step(const volatile void *address)
{
    (void)address;
    if (++rtmw_steps == rtmw_last_step) kill(getpid(), rtmw_last_signal);
}
