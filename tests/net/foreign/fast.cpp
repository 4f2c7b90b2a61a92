// A plain Fast DDS program that tests tell by lines what to do (peer.py says which lines). It knows the types that
// fastddsgen made from IDL, and `each`, made for them when it is built: calls a function with each member in turn.
#include <cstdio>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/DataWriterListener.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/DataReaderListener.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>

#include "each.h"

using namespace eprosima::fastdds::dds;

static std::mutex lock_of_output;

static void say(const std::string &topic, const std::string &what)
{
    std::lock_guard<std::mutex> guard(lock_of_output);
    std::cout << topic << ' ' << what << std::endl;
}

// ---- values as text ----

struct Printer {
    std::ostream &out;
    void operator()(std::string &text) { out << ' ' << std::quoted(text); }
    template <size_t N> void operator()(eprosima::fastrtps::fixed_string<N> &text)
    {
        out << ' ' << std::quoted(text.to_string());
    }
    template <class T> void operator()(std::vector<T> &items)
    {
        out << ' ' << items.size();
        for (size_t n = 0; n < items.size(); n++) {
            T item = items[n];
            (*this)(item);
        }
    }
    template <class T, size_t N> void operator()(std::array<T, N> &items)
    {
        out << ' ' << N;
        for (T &item : items) (*this)(item);
    }
    void operator()(char &letter) { out << ' ' << std::quoted(std::string(1, letter)); }
    template <class T> void operator()(T &value)
    {
        if constexpr (std::is_floating_point_v<T>) {
            char text[40];
            std::snprintf(text, sizeof text, " %.17g", static_cast<double>(value));
            out << text;
        } else if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
            out << ' ' << +static_cast<std::conditional_t<std::is_unsigned_v<T>, uint64_t, int64_t>>(value);
        } else {
            each(*this, value);
        }
    }
};

struct Parser {
    std::istream &in;
    void operator()(std::string &text) { in >> std::quoted(text); }
    template <size_t N> void operator()(eprosima::fastrtps::fixed_string<N> &bounded)
    {
        std::string text;
        in >> std::quoted(text);
        bounded = text;
    }
    template <class T> void operator()(std::vector<T> &items)
    {
        size_t count = 0;
        in >> count;
        items.clear();
        for (size_t n = 0; n < count && in; n++) {
            T item{};
            (*this)(item);
            items.push_back(item);
        }
    }
    template <class T, size_t N> void operator()(std::array<T, N> &items)
    {
        size_t count = 0;
        in >> count;
        for (T &item : items) (*this)(item);
    }
    void operator()(char &letter)
    {
        std::string text;
        in >> std::quoted(text);
        letter = text.at(0);
    }
    template <class T> void operator()(T &value)
    {
        if constexpr (std::is_floating_point_v<T>) {
            in >> value;
        } else if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
            std::conditional_t<std::is_unsigned_v<T>, uint64_t, int64_t> number = 0;
            in >> number;
            value = static_cast<T>(number);
        } else {
            each(*this, value);
        }
    }
};

// A type, without its type.
struct Kind {
    TypeSupport support;
    std::function<void(std::ostream &, void *)> print;
    std::function<void(std::istream &, void *)> parse;
};

static std::map<std::string, Kind> known;

template <class T, class Support> void add_kind()
{
    Kind kind{TypeSupport(new Support), [](std::ostream &out, void *data) { Printer{out}(*static_cast<T *>(data)); },
              [](std::istream &in, void *data) { Parser{in}(*static_cast<T *>(data)); }};
    known.emplace(kind.support.get_type_name(), kind);
}

// ---- endpoints ----

struct Reading : DataReaderListener {
    std::string topic;
    Kind kind;
    bool waits_to_be_told;
    Reading(std::string name, Kind known, bool waits) : topic(name), kind(known), waits_to_be_told(waits) {}
    void on_data_available(DataReader *reader) override
    {
        if (!waits_to_be_told) take(reader);
    }
    void take(DataReader *reader)
    {
        SampleInfo info;
        void *data = kind.support.create_data();
        while (reader->take_next_sample(data, &info) == ReturnCode_t::RETCODE_OK) {
            std::ostringstream text;
            if (info.valid_data) kind.print(text, data);
            if (info.valid_data) say(topic, "sample" + text.str());
        }
        kind.support.delete_data(data);
    }
    void on_subscription_matched(DataReader *, const SubscriptionMatchedStatus &status) override
    {
        say(topic, "matched " + std::to_string(status.current_count));
    }
    void on_requested_incompatible_qos(DataReader *, const RequestedIncompatibleQosStatus &) override
    {
        say(topic, "incompatible");
    }
    void on_requested_deadline_missed(DataReader *, const RequestedDeadlineMissedStatus &) override
    {
        say(topic, "deadline");
    }
};

struct Writing : DataWriterListener {
    std::string topic;
    explicit Writing(std::string name) : topic(name) {}
    void on_publication_matched(DataWriter *, const PublicationMatchedStatus &status) override
    {
        say(topic, "matched " + std::to_string(status.current_count));
    }
    void on_offered_incompatible_qos(DataWriter *, const OfferedIncompatibleQosStatus &) override
    {
        say(topic, "incompatible");
    }
};

// key=value ...; see peer.py
struct Policies {
    std::map<std::string, std::string> given;
    explicit Policies(std::istream &in)
    {
        for (std::string word; in >> word;) given[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    }
    double get(const char *name) const { return given.count(name) ? std::stod(given.at(name)) : 0; }
    Duration_t seconds(const char *name) const
    {
        return given.count(name) ? Duration_t(static_cast<long double>(get(name))) : eprosima::fastrtps::c_TimeInfinite;
    }
    template <class Qos> Qos partitioned(Qos qos) const
    {
        if (given.count("partition")) qos.partition().push_back(given.at("partition").c_str());
        qos.presentation().access_scope = static_cast<PresentationQosPolicyAccessScopeKind>(get("scope"));
        qos.presentation().coherent_access = get("coherent") != 0;
        qos.presentation().ordered_access = get("ordered") != 0;
        return qos;
    }
    template <class Qos> Qos common() const
    {
        Qos qos;
        qos.reliability().kind = get("best_effort") != 0 ? BEST_EFFORT_RELIABILITY_QOS : RELIABLE_RELIABILITY_QOS;
        qos.history().kind = get("depth") != 0 ? KEEP_LAST_HISTORY_QOS : KEEP_ALL_HISTORY_QOS;
        if (get("depth") != 0) qos.history().depth = static_cast<int>(get("depth"));
        qos.durability().kind = static_cast<DurabilityQosPolicyKind>(get("durable"));
        qos.deadline().period = seconds("deadline");
        qos.ownership().kind = get("exclusive") != 0 ? EXCLUSIVE_OWNERSHIP_QOS : SHARED_OWNERSHIP_QOS;
        qos.liveliness().kind = static_cast<LivelinessQosPolicyKind>(get("liveliness"));
        if (given.count("lease")) {
            qos.liveliness().lease_duration = seconds("lease");
            qos.liveliness().announcement_period = Duration_t(static_cast<long double>(get("lease") / 4));
        }
        qos.destination_order().kind = static_cast<DestinationOrderQosPolicyKind>(get("order"));
        if (given.count("latency")) qos.latency_budget().duration = seconds("latency");
        qos.data_sharing().off();
        return qos;
    }
};

class Program
{
  public:
    explicit Program(uint32_t domain)
    {
        DomainParticipantQos qos = PARTICIPANT_QOS_DEFAULT;
        auto transport = std::make_shared<eprosima::fastdds::rtps::UDPv4TransportDescriptor>();
        transport->interfaceWhiteList.push_back("127.0.0.1");
        qos.transport().use_builtin_transports = false;
        qos.transport().user_transports.push_back(transport);
        participant_ = DomainParticipantFactory::get_instance()->create_participant(domain, qos);
    }
    void obey(const std::string &line)
    {
        std::istringstream words(line);
        std::string command, name;
        words >> command >> name;
        if (command == "reader") open_reader(name, words);
        if (command == "writer") open_writer(name, words);
        if (command == "write" || command == "dispose" || command == "unregister") write(command, name, words);
        if (command == "close") close(name);
        if (command == "take") readings_[name]->take(readers_[name]);
    }
    void end()
    {
        participant_->delete_contained_entities();
        DomainParticipantFactory::get_instance()->delete_participant(participant_);
    }

  private:
    Topic *topic(const std::string &name, std::istream &words)
    {
        std::string type;
        words >> type;
        size_t slash = type.find('/');
        std::string alias = type.substr(slash == std::string::npos ? 0 : slash + 1);
        kind_[name] = known.at(type.substr(0, slash));
        kind_[name].support.register_type(participant_, alias);
        return participant_->create_topic(name, alias, TOPIC_QOS_DEFAULT);
    }
    void open_reader(const std::string &name, std::istream &words)
    {
        Topic *of = topic(name, words);
        Policies policies(words);
        auto qos = policies.common<DataReaderQos>();
        if (policies.given.count("interval")) qos.time_based_filter().minimum_separation = policies.seconds("interval");
        auto *subscriber = participant_->create_subscriber(policies.partitioned(SUBSCRIBER_QOS_DEFAULT));
        readings_[name] = new Reading(name, kind_[name], policies.get("waits") != 0);
        readers_[name] = subscriber->create_datareader(of, qos, readings_[name]);
        if (!readers_[name]) say(name, "refused");
    }
    void open_writer(const std::string &name, std::istream &words)
    {
        Topic *of = topic(name, words);
        Policies policies(words);
        auto qos = policies.common<DataWriterQos>();
        qos.lifespan().duration = policies.seconds("lifespan");
        qos.writer_data_lifecycle().autodispose_unregistered_instances = false;
        qos.transport_priority().value = static_cast<uint32_t>(policies.get("priority"));
        auto *publisher = participant_->create_publisher(policies.partitioned(PUBLISHER_QOS_DEFAULT));
        writers_[name] = publisher->create_datawriter(of, qos, new Writing(name));
        if (!writers_[name]) say(name, "refused");
    }
    void write(const std::string &command, const std::string &name, std::istream &words)
    {
        void *data = kind_[name].support.create_data();
        DataWriter *writer = writers_[name];
        kind_[name].parse(words, data);
        bool done = !writer                ? false
                    : command == "write"   ? writer->write(data)
                    : command == "dispose" ? writer->dispose(data, HANDLE_NIL) == ReturnCode_t::RETCODE_OK
                                           : writer->unregister_instance(data, HANDLE_NIL) == ReturnCode_t::RETCODE_OK;
        say(name, done ? "wrote" : "failed");
        kind_[name].support.delete_data(data);
    }
    void close(const std::string &name)
    {
        if (writers_.count(name)) {
            const Publisher *publisher = writers_[name] ? writers_[name]->get_publisher() : nullptr;
            if (publisher) const_cast<Publisher *>(publisher)->delete_datawriter(writers_[name]);
            writers_.erase(name);
        } else {
            const Subscriber *subscriber = readers_[name] ? readers_[name]->get_subscriber() : nullptr;
            if (subscriber) const_cast<Subscriber *>(subscriber)->delete_datareader(readers_[name]);
            readers_.erase(name);
        }
    }

    DomainParticipant *participant_;
    std::map<std::string, Kind> kind_;
    std::map<std::string, DataWriter *> writers_;
    std::map<std::string, DataReader *> readers_;
    std::map<std::string, Reading *> readings_;
};

int main(int, char **arguments)
{
    add_kinds();
    Program program(static_cast<uint32_t>(std::stoul(arguments[1])));
    say("program", "ready");
    for (std::string line; std::getline(std::cin, line);) program.obey(line);
    program.end();
}
