/* TLS 1.3 of a connection: the handshake and the ciphers are OpenSSL's; the records behind the handshake are sealed and opened
 * here. */
#include "tls.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "../../shm/atomics.h"

/* ---- the library ---- */

/* Which OpenSSL: the one that somebody names, else the one that Python has loaded for its module ssl, else that of the
 * system. A Python that was linked with one of its own shows none of its functions. */

struct library {
    struct library *next;
    struct openssl bound;
    char path[];
};

static const char usual[] = "libssl.so.3";
static struct library *known;                               /* until the process ends */
static pthread_mutex_t binding = PTHREAD_MUTEX_INITIALIZER; /* guards it */

static const struct openssl *find_known(const char *path)
{
    for (const struct library *one = known; one; one = one->next)
        if (!strcmp(one->path, path)) return &one->bound;
    return NULL;
}

/* Those of libcrypto are found through libssl, which needs it. */
static bool bind_all(struct openssl *bound, void *library, const char *path, char *words, size_t size)
{
#define BIND(function, result, arguments)                                                                  \
    *(void **)&bound->function = dlsym(library, #function);                                                \
    if (!bound->function) {                                                                                \
        snprintf(words, size, "%s has no %s: links need libssl of OpenSSL 3.0 or later", path, #function); \
        return false;                                                                                      \
    }
    OPENSSL_FUNCTIONS(BIND)
#undef BIND
    return true;
}

static void *load(const char *path, char *words, size_t size)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* one that is loaded already is that one */
    if (library) return library;
    if (path == usual)
        snprintf(words, size,
                 "there is no %s on this host, which links over TLS need: install the system's OpenSSL 3 (Debian, "
                 "Ubuntu: apt install libssl3)",
                 usual);
    else
        snprintf(words, size, "the OpenSSL that [link] names cannot be loaded: %s", dlerror());
    return NULL;
}

static const struct openssl *add(const char *path, char *words, size_t size)
{
    void *library = load(path, words, size);
    if (!library) return NULL;
    struct library *one = calloc(1, sizeof *one + strlen(path) + 1);
    if (!one) snprintf(words, size, "there is no memory for OpenSSL");
    if (!one || !bind_all(&one->bound, library, path, words, size)) {
        free(one);
        dlclose(library);
        return NULL;
    }
    strcpy(one->path, path);
    one->next = known;
    known = one;
    return &one->bound;
}

const struct openssl *openssl_find(const char *path, char *words, size_t size)
{
    if (!*path) path = usual;
    pthread_mutex_lock(&binding);
    const struct openssl *found = find_known(path);
    if (!found) found = add(path, words, size);
    pthread_mutex_unlock(&binding);
    return found;
}

/* ---- records ---- */

/* Records of TLS 1.3: keys, nonces, and the ciphers of OpenSSL. */

enum { VERSION = 0x0303, LABEL_MOST = 32 };

struct record_suite {
    uint16_t number;
    size_t key, hash; /* bytes */
};

static const struct record_suite suites[] = {{0x1301, 16, 32}, {0x1302, 32, 48}, {0x1303, 32, 32}};

static const EVP_CIPHER *cipher_of(const struct openssl *o, const struct record_suite *suite)
{
    if (suite->number == 0x1303) return o->EVP_chacha20_poly1305();
    return suite->number == 0x1301 ? o->EVP_aes_128_gcm() : o->EVP_aes_256_gcm();
}

/* ---- keys ---- */

/* HKDF-Expand-Label with no context, for no more bytes than the hash has: its first block is all. */
static bool expand(const struct record_keys *k, const char *label, uint8_t *to, size_t size)
{
    const struct openssl *o = k->library;
    uint8_t info[LABEL_MOST], block[RECORD_SECRET];
    size_t length = strlen(label);
    info[0] = 0;
    info[1] = (uint8_t)size;
    info[2] = (uint8_t)(6 + length);
    memcpy(info + 3, "tls13 ", 6);
    memcpy(info + 9, label, length);
    info[9 + length] = 0;  /* bytes of context */
    info[10 + length] = 1; /* the number of the block */
    const EVP_MD *hash = k->suite->hash == 48 ? o->EVP_sha384() : o->EVP_sha256();
    bool is_made = o->HMAC(hash, k->secret, (int)k->suite->hash, info, 11 + length, block, NULL) != NULL;
    if (is_made) memcpy(to, block, size);
    o->OPENSSL_cleanse(block, sizeof block);
    return is_made;
}

/* Those that follow from the secret. */
static bool begin(struct record_keys *k)
{
    const struct openssl *o = k->library;
    uint8_t key[32];
    bool is_set = expand(k, "key", key, k->suite->key) && expand(k, "iv", k->iv, sizeof k->iv) &&
                  o->EVP_CipherInit_ex(k->context, cipher_of(o, k->suite), NULL, key, NULL, k->seals) == 1;
    o->OPENSSL_cleanse(key, sizeof key);
    k->number = 0;
    return is_set;
}

bool record_keys_open(struct record_keys *k, const struct openssl *o, uint16_t suite, const uint8_t *secret)
{
    const struct record_suite *end = suites + sizeof suites / sizeof *suites, *found = suites;
    while (found < end && found->number != suite) found++;
    if (found == end) return false;
    k->library = o;
    k->suite = found;
    memcpy(k->secret, secret, found->hash);
    k->context = o->EVP_CIPHER_CTX_new();
    return k->context && begin(k);
}

bool record_keys_update(struct record_keys *k)
{
    return expand(k, "traffic upd", k->secret, k->suite->hash) && begin(k);
}

void record_keys_close(struct record_keys *k)
{
    if (!k->library) return;
    if (k->context) k->library->EVP_CIPHER_CTX_free(k->context);
    k->context = NULL;
    k->library->OPENSSL_cleanse(k->secret, sizeof k->secret);
    k->library->OPENSSL_cleanse(k->iv, sizeof k->iv);
}

/* ---- records ---- */

/* Each number is used once, for a nonce that comes again under one key gives both away. */
static bool begin_record(struct record_keys *k, const uint8_t header[RECORD_HEADER])
{
    const struct openssl *o = k->library;
    uint8_t nonce[sizeof k->iv];
    int size;
    memcpy(nonce, k->iv, sizeof nonce);
    for (size_t n = 0; n < sizeof k->number; n++) nonce[sizeof nonce - 1 - n] ^= (uint8_t)(k->number >> (8 * n));
    k->number++;
    return o->EVP_CipherInit_ex(k->context, NULL, NULL, NULL, nonce, -1) == 1 &&
           o->EVP_CipherUpdate(k->context, NULL, &size, header, RECORD_HEADER) == 1;
}

/* Between the parts and the record, where it is encrypted. */
static bool cross(struct record_keys *k, struct record_parts *p, uint8_t *record, size_t size)
{
    int done;
    while (size) {
        size_t left = p->part->iov_len - p->passed, some = left < size ? left : size;
        uint8_t *part = (uint8_t *)p->part->iov_base + p->passed, *to = k->seals ? record : part;
        const uint8_t *from = k->seals ? part : record;
        if (some && k->library->EVP_CipherUpdate(k->context, to, &done, from, (int)some) != 1) return false;
        record += some;
        size -= some;
        p->passed += some;
        if (p->passed == p->part->iov_len) *p = (struct record_parts){p->part + 1, 0};
    }
    return true;
}

size_t record_seal(struct record_keys *k, enum record_type type, struct record_parts *parts, size_t size, uint8_t *to)
{
    const struct openssl *o = k->library;
    size_t body = size + 1 + RECORD_TAG;
    uint8_t header[] = {RECORD_DATA, VERSION >> 8, VERSION & 0xFF, (uint8_t)(body >> 8), (uint8_t)body};
    uint8_t inner = (uint8_t)type, *tag = to + RECORD_HEADER + size + 1;
    int done;
    memcpy(to, header, sizeof header);
    bool is_sealed = begin_record(k, header) && cross(k, parts, to + RECORD_HEADER, size) &&
                     o->EVP_CipherUpdate(k->context, tag - 1, &done, &inner, 1) == 1 &&
                     o->EVP_CipherFinal_ex(k->context, tag, &done) == 1 &&
                     o->EVP_CIPHER_CTX_ctrl(k->context, EVP_CTRL_AEAD_GET_TAG, RECORD_TAG, tag) == 1;
    return is_sealed ? RECORD_HEADER + body : 0;
}

static size_t length_of(const uint8_t *header) { return RECORD_HEADER + ((size_t)header[3] << 8 | header[4]); }

enum record_check record_check(const uint8_t *header)
{
    size_t length = length_of(header);
    bool is_one = header[0] == RECORD_DATA && header[1] == VERSION >> 8 && header[2] == (VERSION & 0xFF);
    if (!is_one) return RECORD_OTHER;
    if (length > RECORD_LONGEST) return RECORD_LONG;
    return length < RECORD_AROUND ? RECORD_SHORT : RECORD_GOOD;
}

size_t record_length(const uint8_t *record) { return record_check(record) == RECORD_GOOD ? length_of(record) : 0; }

bool record_open(struct record_keys *k, uint8_t *record, struct record_parts *parts, uint8_t *type)
{
    const struct openssl *o = k->library;
    size_t size = record_length(record) - RECORD_AROUND;
    uint8_t *last = record + RECORD_HEADER + size, none[RECORD_TAG];
    int done;
    return begin_record(k, record) &&
           o->EVP_CIPHER_CTX_ctrl(k->context, EVP_CTRL_AEAD_SET_TAG, RECORD_TAG, last + 1) == 1 &&
           cross(k, parts, record + RECORD_HEADER, size) &&
           o->EVP_CipherUpdate(k->context, type, &done, last, 1) == 1 &&
           o->EVP_CipherFinal_ex(k->context, none, &done) == 1;
}

/* ---- handshake ---- */

/* TLS 1.3, without tickets, renegotiation and 0-RTT, and with a certificate of either side. */

/* In the order in which this node prefers them. AES-128 is as strong as the keys of nodes (P-256), and AES-256 is slower. */
static const char ciphers[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

void tls_say_reason(const struct openssl *o, unsigned long code, struct tls_fault *fault)
{
    const char *reason = code ? o->ERR_reason_error_string(code) : NULL;
    snprintf(fault->reason, sizeof fault->reason, "%s", reason ? reason : "");
    for (char *at = fault->reason; *at; at++) *at = *at == ' ' ? '_' : (char)toupper((unsigned char)*at);
}

/* ---- keys ---- */

static int no_password(char *buffer, int size, int is_writing, void *argument)
{
    (void)buffer, (void)size, (void)is_writing, (void)argument;
    return 0; /* and nobody is asked on a terminal */
}

static bool use_keys(SSL_CTX *context, const struct openssl *o, struct tls_pem pem)
{
    BIO *one = o->BIO_new_mem_buf(pem.bytes, (int)pem.size), *two = o->BIO_new_mem_buf(pem.bytes, (int)pem.size);
    EVP_PKEY *key = one ? o->PEM_read_bio_PrivateKey(one, NULL, no_password, NULL) : NULL;
    X509 *certificate = two ? o->PEM_read_bio_X509(two, NULL, no_password, NULL) : NULL;
    bool is_used = key && certificate && o->SSL_CTX_use_certificate(context, certificate) == 1 &&
                   o->SSL_CTX_use_PrivateKey(context, key) == 1 && o->SSL_CTX_check_private_key(context) == 1;
    if (key) o->EVP_PKEY_free(key);
    if (certificate) o->X509_free(certificate);
    if (one) o->BIO_free(one);
    if (two) o->BIO_free(two);
    return is_used;
}

/* ---- secrets ---- */

static _Thread_local struct tls *shaking; /* of which this thread does a step of the handshake */

static uint8_t nibble(char digit) { return (uint8_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10); }

/* OpenSSL tells secrets as lines of a key log: what it is, the client's random bytes, and the secret, in hexadecimal. */
static void keep_secret(const SSL *ssl, const char *line)
{
    static const char *const names[] = {"CLIENT_TRAFFIC_SECRET_0 ", "SERVER_TRAFFIC_SECRET_0 "};
    struct tls *t = shaking;
    (void)ssl;
    for (int of = 0; of < 2; of++) {
        if (strncmp(line, names[of], strlen(names[of])) != 0) continue;
        const char *digit = strrchr(line, ' ') + 1;
        for (size_t n = 0; n < RECORD_SECRET && digit[0] && digit[1]; n++, digit += 2)
            t->secrets[of][n] = (uint8_t)(nibble(digit[0]) << 4 | nibble(digit[1]));
        t->has_secret[of] = true;
    }
}

static void restrict_it(SSL_CTX *context, const struct openssl *o)
{
    o->SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL);
    o->SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_3_VERSION, NULL);
    o->SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, 0, NULL);
    o->SSL_CTX_set_ciphersuites(context, ciphers);
    o->SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    o->SSL_CTX_clear_options(context, SSL_OP_ENABLE_KTLS); /* of openssl.cnf: the kernel would seal our records again */
    o->SSL_CTX_set_num_tickets(context, 0);
    o->SSL_CTX_set_keylog_callback(context, keep_secret);
    o->SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    o->X509_VERIFY_PARAM_set_flags(o->SSL_CTX_get0_param(context), X509_V_FLAG_X509_STRICT);
}

bool tls_context_open(struct tls_context *c, const struct openssl *o, struct tls_pem pem, struct tls_fault *fault)
{
    c->library = o;
    o->ERR_clear_error();
    c->context = o->SSL_CTX_new(c->is_server ? o->TLS_server_method() : o->TLS_client_method());
    if (c->context) restrict_it(c->context, o);
    if (c->context && use_keys(c->context, o, pem)) return true;
    *fault = (struct tls_fault){0};
    tls_say_reason(o, o->ERR_peek_last_error(), fault);
    tls_context_close(c);
    return false;
}

bool tls_context_trust(struct tls_context *c, const uint8_t *der, size_t size)
{
    const struct openssl *o = c->library;
    X509 *authority = o->d2i_X509(NULL, &der, (long)size);
    bool is_added = authority && o->X509_STORE_add_cert(o->SSL_CTX_get_cert_store(c->context), authority) == 1;
    if (is_added && c->is_server) o->SSL_CTX_add_client_CA(c->context, authority);
    if (authority) o->X509_free(authority);
    o->ERR_clear_error();
    return is_added;
}

void tls_context_close(struct tls_context *c)
{
    if (c->context) c->library->SSL_CTX_free(c->context);
    c->context = NULL;
}

/* ---- a connection ---- */

bool tls_open(struct tls *t, const struct tls_context *c, int descriptor)
{
    const struct openssl *o = c->library;
    memset(t, 0, offsetof(struct tls, received)); /* pages of buffers are touched when records come */
    t->library = o;
    t->ssl = o->SSL_new(c->context);
    t->descriptor = descriptor;
    t->is_server = c->is_server;
    t->out.seals = true;
    bool is_open = t->ssl && o->SSL_set_fd(t->ssl, descriptor) == 1;
    if (!is_open) return tls_close(t), false;
    if (c->is_server)
        o->SSL_set_accept_state(t->ssl);
    else
        o->SSL_set_connect_state(t->ssl);
    return true;
}

/* The state after a call that has returned `result`, not above 0. */
static enum tls_state state_of(struct tls *t, int result, struct tls_fault *fault)
{
    const struct openssl *o = t->library;
    int saved = errno, error = o->SSL_get_error(t->ssl, result);
    *fault = (struct tls_fault){0};
    if (error == SSL_ERROR_WANT_READ) return TLS_WANTS_READ;
    if (error == SSL_ERROR_WANT_WRITE) return TLS_WANTS_WRITE;
    if (error == SSL_ERROR_ZERO_RETURN) return TLS_CLOSED;
    tls_say_reason(o, o->ERR_peek_last_error(), fault);
    fault->verify_code = o->SSL_get_verify_result(t->ssl);
    snprintf(fault->verify_words, sizeof fault->verify_words, "%s",
             o->X509_verify_cert_error_string(fault->verify_code));
    errno = error == SSL_ERROR_SYSCALL ? saved : 0;
    return TLS_FAILED;
}

/* OpenSSL reads no further than its records go, so what follows the handshake is still in the kernel. */
static bool take_over(struct tls *t)
{
    const struct openssl *o = t->library;
    uint16_t suite = o->SSL_CIPHER_get_protocol_id(o->SSL_get_current_cipher(t->ssl));
    const uint8_t *mine = t->secrets[t->is_server], *theirs = t->secrets[!t->is_server];
    bool is_taken = t->has_secret[0] && t->has_secret[1] && !o->SSL_has_pending(t->ssl) &&
                    record_keys_open(&t->in, o, suite, theirs) && record_keys_open(&t->out, o, suite, mine);
    o->OPENSSL_cleanse(t->secrets, sizeof t->secrets);
    return is_taken;
}

enum tls_state tls_handshake(struct tls *t, struct tls_fault *fault)
{
    if (t->ended || t->out.context) return t->ended;
    t->library->ERR_clear_error();
    errno = 0;
    shaking = t;
    int result = t->library->SSL_do_handshake(t->ssl);
    shaking = NULL;
    if (result != 1) return state_of(t, result, fault);
    if (take_over(t)) return TLS_DONE;
    *fault = (struct tls_fault){.reason = "INTERNAL_ERROR"};
    return t->ended = TLS_FAILED;
}

size_t tls_peer(const struct tls *t, uint8_t *der)
{
    X509 *certificate = t->library->SSL_get1_peer_certificate(t->ssl);
    if (!certificate) return 0;
    int size = t->library->i2d_X509(certificate, der ? &der : NULL);
    t->library->X509_free(certificate);
    return size > 0 ? (size_t)size : 0;
}

const char *tls_cipher(const struct tls *t)
{
    const SSL_CIPHER *cipher = t->library->SSL_get_current_cipher(t->ssl);
    return cipher ? t->library->SSL_CIPHER_get_name(cipher) : "";
}

void tls_close(struct tls *t)
{
    if (t->out.context) tls_say_alert(t);
    record_keys_close(&t->in);
    record_keys_close(&t->out);
    t->library->OPENSSL_cleanse(t->secrets, sizeof t->secrets);
    if (t->ssl) t->library->SSL_free(t->ssl);
    t->ssl = NULL;
}

/* ---- stream ---- */

/* What follows the handshake: records of TLS 1.3, to and from a socket. */

enum {
    UPDATE_ROOM = RECORD_AROUND + 5,
    BARE_MOST = 32,  /* records without bytes for the line, in a row */
    KEY_UPDATE = 24, /* a message of the handshake */
    WARNING = 1,     /* of alerts: their levels, and what they say */
    FATAL = 2,
    CLOSE_NOTIFY = 0,
    UNEXPECTED_MESSAGE = 10,
    BAD_RECORD_MAC = 20,
    RECORD_OVERFLOW = 22,
    ILLEGAL_PARAMETER = 47,
    DECODE_ERROR = 50,
    INTERNAL_ERROR = 80,
    USER_CANCELED = 90,
};

struct space {
    struct record_parts at;
    size_t left, filled;
};

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static size_t size_of(const struct iovec *part, uint32_t parts)
{
    size_t size = 0;
    for (uint32_t n = 0; n < parts; n++) size += part[n].iov_len;
    return size;
}

static enum tls_state fail(struct tls *t, uint8_t alert, const char *reason, struct tls_fault *fault)
{
    *fault = (struct tls_fault){0};
    snprintf(fault->reason, sizeof fault->reason, "%s", reason);
    errno = 0;
    t->alert = alert;
    return t->ended = TLS_FAILED;
}

/* ---- records that are not the line's ---- */

/* What OpenSSL calls an alert is a reason of its own, by a number. */
static enum tls_state hear_alert(struct tls *t, const uint8_t *body, size_t size, struct tls_fault *fault)
{
    if (size != 2) return fail(t, UNEXPECTED_MESSAGE, "BAD_ALERT", fault);
    if (body[1] == USER_CANCELED) return TLS_DONE; /* a CLOSE_NOTIFY follows */
    if (body[1] == CLOSE_NOTIFY) return t->ended = TLS_CLOSED;
    fail(t, 0, "", fault);
    tls_say_reason(t->library, (unsigned long)ERR_LIB_SSL << ERR_LIB_SHIFT | (SSL_AD_REASON_OFFSET + body[1]), fault);
    return TLS_FAILED;
}

static enum tls_state hear_key_update(struct tls *t, const uint8_t *body, size_t size, struct tls_fault *fault)
{
    static const uint8_t length[] = {0, 0, 1};
    enum { HEAD = 1 + sizeof length };
    if (size < HEAD || body[0] != KEY_UPDATE) return fail(t, UNEXPECTED_MESSAGE, "UNEXPECTED_MESSAGE", fault);
    if (memcmp(body + 1, length, sizeof length) != 0) return fail(t, DECODE_ERROR, "BAD_KEY_UPDATE", fault);
    if (size != HEAD + 1) return fail(t, UNEXPECTED_MESSAGE, "NOT_ON_RECORD_BOUNDARY", fault);
    if (body[HEAD] > 1) return fail(t, ILLEGAL_PARAMETER, "BAD_KEY_UPDATE", fault);
    if (!record_keys_update(&t->in)) return fail(t, INTERNAL_ERROR, "INTERNAL_ERROR", fault);
    if (body[HEAD]) store_relaxed(&t->must_update, 1u);
    return TLS_DONE;
}

/* A record that lies opened where it came, with its type and padding behind its bytes. */
static enum tls_state hear(struct tls *t, uint8_t *body, size_t size, struct tls_fault *fault)
{
    while (size && !body[size - 1]) size--;
    uint8_t type = size ? body[size - 1] : 0;
    if (type == RECORD_ALERT) return hear_alert(t, body, size - 1, fault);
    if (type == RECORD_HANDSHAKE) return hear_key_update(t, body, size - 1, fault);
    if (type != RECORD_DATA) return fail(t, UNEXPECTED_MESSAGE, "UNEXPECTED_MESSAGE", fault);
    t->plain = (size_t)(body - t->received);
    t->plain_end = t->plain + size - 1;
    return TLS_DONE;
}

/* ---- reading ---- */

/* From the parts to a piece of memory, or the other way. */
static void copy(struct record_parts *p, uint8_t *memory, size_t size, bool is_to_parts)
{
    for (size_t some; size; size -= some, memory += some) {
        uint8_t *there = (uint8_t *)p->part->iov_base + p->passed;
        some = least(p->part->iov_len - p->passed, size);
        memcpy(is_to_parts ? there : memory, is_to_parts ? memory : there, some);
        p->passed += some;
        if (p->passed == p->part->iov_len) *p = (struct record_parts){p->part + 1, 0};
    }
}

static void fill(struct space *to, size_t size)
{
    to->filled += size;
    to->left -= size;
}

static void hand_out(struct tls *t, struct space *to)
{
    size_t size = least(t->plain_end - t->plain, to->left);
    copy(&to->at, t->received + t->plain, size, true);
    t->plain += size;
    fill(to, size);
}

/* Into the place where its bytes are wanted, if they have room there and it is one of the line's; else where it lies. */
static enum tls_state open_record(struct tls *t, size_t length, struct space *to, struct tls_fault *fault)
{
    uint8_t *record = t->received + t->first, *body = record + RECORD_HEADER;
    size_t size = length - RECORD_AROUND;
    struct iovec own = {body, size};
    struct record_parts here = {&own, 0}, before = to->at;
    bool has_room = size <= to->left;
    if (!record_open(&t->in, record, has_room ? &to->at : &here, &body[size]))
        return fail(t, BAD_RECORD_MAC, "DECRYPTION_FAILED_OR_BAD_RECORD_MAC", fault);
    t->first += length;
    if (has_room && body[size] == RECORD_DATA) return fill(to, size), TLS_DONE;
    to->at = before;
    if (has_room) copy(&before, body, size, false);
    return hear(t, body, size + 1, fault);
}

/* TLS 1.3 has no record with this header here. */
static enum tls_state refuse(struct tls *t, const uint8_t *header, struct tls_fault *fault)
{
    switch (record_check(header)) {
    case RECORD_LONG:
        return fail(t, RECORD_OVERFLOW, "ENCRYPTED_LENGTH_TOO_LONG", fault);
    case RECORD_SHORT:
        return fail(t, BAD_RECORD_MAC, "LENGTH_TOO_SHORT", fault);
    default:
        return fail(t, UNEXPECTED_MESSAGE, "BAD_RECORD_TYPE", fault);
    }
}

/* All records that have come whole, as far as they have room. */
static enum tls_state open_all(struct tls *t, struct space *to, struct tls_fault *fault)
{
    enum tls_state state = TLS_DONE;
    hand_out(t, to);
    while (to->left && state == TLS_DONE && t->end - t->first >= RECORD_HEADER) {
        size_t length = record_length(t->received + t->first);
        if (!length) return refuse(t, t->received + t->first, fault);
        if (t->end - t->first < length) break;
        size_t filled = to->filled;
        state = open_record(t, length, to, fault);
        hand_out(t, to);
        t->bare = to->filled > filled ? 0 : t->bare + 1;
        if (state == TLS_DONE && t->bare > BARE_MOST) return fail(t, UNEXPECTED_MESSAGE, "RECORD_TOO_SMALL", fault);
    }
    return state;
}

static enum tls_state receive(struct tls *t, struct tls_fault *fault)
{
    ssize_t count;
    memmove(t->received, t->received + t->first, t->end - t->first);
    t->end -= t->first;
    t->first = 0;
    do count = recv(t->descriptor, t->received + t->end, sizeof t->received - t->end, 0);
    while (count < 0 && errno == EINTR);
    if (count < 0 && errno == EAGAIN) return TLS_WANTS_READ;
    if (count == 0) return fail(t, 0, "UNEXPECTED_EOF_WHILE_READING", fault);
    if (count < 0) return t->ended = TLS_FAILED; /* errno says why */
    t->end += (size_t)count;
    return TLS_DONE;
}

enum tls_state tls_read(struct tls *t, const struct iovec *part, uint32_t parts, size_t *got, struct tls_fault *fault)
{
    struct space to = {.at = {part, 0}, .left = size_of(part, parts)};
    enum tls_state state = t->out.context ? t->ended : tls_handshake(t, fault);
    while (state == TLS_DONE && !to.filled) {
        state = open_all(t, &to, fault);
        if (state == TLS_DONE && !to.filled) state = receive(t, fault);
    }
    *got = to.filled;
    return to.filled ? TLS_DONE : state;
}

/* ---- writing ---- */

static bool seal(struct tls *t, enum record_type type, struct record_parts parts, size_t size)
{
    size_t length = record_seal(&t->out, type, &parts, size, t->sealed + t->sealed_end);
    t->sealed_end += length;
    return length;
}

static bool has_room(const struct tls *t, size_t size)
{
    return sizeof t->sealed - t->sealed_end >= size + RECORD_AROUND;
}

/* New keys, before these have sealed too much, or because the peer has asked for them. */
static bool update(struct tls *t)
{
    bool is_asked = load_relaxed(&t->must_update) && exchange(&t->must_update, 0u);
    if (!is_asked && t->out.number < TLS_KEY_RECORDS) return true;
    uint8_t message[] = {KEY_UPDATE, 0, 0, 1, !is_asked};
    struct iovec part = {message, sizeof message};
    return seal(t, RECORD_HANDSHAKE, (struct record_parts){&part, 0}, sizeof message) && record_keys_update(&t->out);
}

enum tls_state tls_write(struct tls *t, const struct iovec *part, uint32_t parts, size_t *written,
                         struct tls_fault *fault)
{
    size_t size = least(size_of(part, parts), RECORD_MOST);
    enum tls_state state = t->out.context ? TLS_DONE : tls_handshake(t, fault);
    *written = 0;
    if (state == TLS_DONE && !has_room(t, size + UPDATE_ROOM)) state = tls_flush(t, true, fault);
    if (state != TLS_DONE) return state;
    *fault = (struct tls_fault){.reason = "INTERNAL_ERROR"};
    if (!update(t) || !seal(t, RECORD_DATA, (struct record_parts){part, 0}, size)) return TLS_FAILED;
    *written = size;
    return TLS_DONE;
}

enum tls_state tls_flush(struct tls *t, bool is_followed, struct tls_fault *fault)
{
    *fault = (struct tls_fault){0};
    while (t->unsent < t->sealed_end) {
        ssize_t count = send(t->descriptor, t->sealed + t->unsent, t->sealed_end - t->unsent,
                             MSG_NOSIGNAL | (is_followed ? MSG_MORE : 0));
        if (count < 0 && errno != EINTR) return errno == EAGAIN ? TLS_WANTS_WRITE : TLS_FAILED;
        if (count > 0) t->unsent += (size_t)count;
    }
    t->unsent = t->sealed_end = 0;
    return TLS_DONE;
}

void tls_say_alert(struct tls *t)
{
    uint8_t alert[] = {t->alert ? FATAL : WARNING, t->alert};
    struct iovec part = {alert, sizeof alert};
    struct tls_fault fault;
    bool is_due = t->alert || t->ended != TLS_FAILED; /* else the peer has said one, or is gone */
    if (is_due && t->unsent == t->sealed_end && seal(t, RECORD_ALERT, (struct record_parts){&part, 0}, sizeof alert))
        tls_flush(t, false, &fault);
}
