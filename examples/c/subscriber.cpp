// Take text messages in C++: prints sequence, size and text of COUNT messages of a topic.
//
//   make -C examples/c
//   examples/c/subscriber TOPIC COUNT        in domain RTMW_DOMAIN, else 0, which has to be there
#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rtmw.h"

namespace
{

void must(int code, const char *what)
{
    if (code != RTMW_OK) throw std::runtime_error(std::string(what) + ": " + rtmw_describe(code));
}

using Region = std::unique_ptr<rtmw_region, decltype(&rtmw_detach)>;
using Subscriber = std::unique_ptr<rtmw_subscriber, decltype(&rtmw_subscriber_close)>;

Region attach(uint32_t domain)
{
    rtmw_region *region = nullptr;
    must(rtmw_attach(domain, &region), "attach");
    return {region, rtmw_detach};
}

Subscriber subscribe(const Region &region, const char *topic)
{
    rtmw_subscriber_qos qos = RTMW_SUBSCRIBER_QOS;
    qos.reliability = RTMW_RELIABLE;
    rtmw_subscriber *subscriber = nullptr;
    must(rtmw_subscriber_open(region.get(), topic, nullptr, &qos, &subscriber), topic);
    return {subscriber, rtmw_subscriber_close};
}

// Read where the publisher wrote it; the memory is the reader's until it is released.
bool print_one(const Region &region, const Subscriber &subscriber)
{
    rtmw_message message;
    int code = rtmw_take(subscriber.get(), &message);
    if (code == RTMW_EMPTY || code == RTMW_AGAIN) return false; // AGAIN: then the wait ends at once
    must(code, "take");
    std::cout << message.sequence << ' ' << message.size << ' '
              << std::string_view(static_cast<const char *>(message.data), message.size) << std::endl;
    rtmw_release(region.get(), message.descriptor);
    return true;
}

} // namespace

int main(int count, char **arguments)
try {
    if (count != 3) throw std::runtime_error("usage: subscriber TOPIC COUNT");
    const char *domain = std::getenv("RTMW_DOMAIN");
    Region region = attach(domain ? static_cast<uint32_t>(std::atoi(domain)) : 0);
    Subscriber subscriber = subscribe(region, arguments[1]);
    for (int left = std::atoi(arguments[2]); left > 0;) {
        if (print_one(region, subscriber))
            left--;
        else
            must(rtmw_wait(subscriber.get(), 10'000'000'000, UINT64_MAX), "wait");
    }
    return 0;
} catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
