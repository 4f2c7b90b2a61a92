/* Records of TLS 1.3: keys, nonces, and the ciphers of OpenSSL. */
#include "tls_record.h"

#include <string.h>

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
