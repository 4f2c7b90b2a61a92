/* TLS 1.3, without tickets, renegotiation and 0-RTT, and with a certificate of either side. */
#include "tls.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

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
